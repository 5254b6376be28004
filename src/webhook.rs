//! The webhook: an HTTP call when a collection or a sitting has ended.
//!
//! Nothing depends on it: whatever goes wrong here is a warning on stderr and never changes
//! how a command ends. The secret comes from the environment variable that the settings name,
//! so that no file and no message ever holds it.

use std::time::Duration;

use assize_domain::hash::hex;
use assize_domain::judge::Judge;
use assize_domain::sitting::SittingState;
use assize_domain::task::TaskDefaults;
use assize_http::{Address, HttpConfig, Webhook};
use assize_pipeline::collect::Summary;
use serde::Deserialize;
use serde_json::{Value, json};

use crate::environment;
use crate::output::{complain, safe};
use crate::session::Session;

/// How long one try may take; the command's user waits for it.
const TIMEOUT: Duration = Duration::from_secs(10);
const RETRIES: u32 = 4;
const LONGEST_WAIT: Duration = Duration::from_secs(8);

/// Where to send events.
#[derive(Debug, Clone, PartialEq, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct WebhookSettings {
    /// Empty: no webhook.
    pub url: String,
    /// The environment variable that holds the secret.
    pub secret_env: String,
}

impl WebhookSettings {
    /// What is wrong with them, by key. Nothing quotes the address: its path may be a secret.
    pub fn problem(&self) -> Option<(&'static str, String)> {
        if self.url.is_empty() {
            return None;
        }
        let Ok((receiver, _)) = Address::with_path(&self.url) else {
            let message = "must start with http:// or https:// and a host";
            return Some(("webhook.url", message.to_owned()));
        };
        if receiver.credentials().is_some() {
            let message = "holds a user or password: sign with webhook.secret_env instead";
            return Some(("webhook.url", message.to_owned()));
        }
        self.secret_env.is_empty().then(|| {
            let message = "is empty: name the environment variable that holds the secret";
            ("webhook.secret_env", message.to_owned())
        })
    }
}

/// What happened.
#[derive(Debug)]
pub enum Event<'a> {
    Collected {
        experiment: &'a str,
        summary: &'a Summary,
    },
    SittingEnded(Sat<'a>),
}

/// A sitting that is over.
#[derive(Debug)]
pub struct Sat<'a> {
    pub experiment: &'a str,
    /// `None` for an automatic judge, whose sittings have no name outside.
    pub sitting: Option<&'a str>,
    pub judge: &'a Judge,
    /// Open where a judge file was applied in part.
    pub state: SittingState,
    /// Cases with a verdict of this sitting.
    pub judged: u64,
    /// Cases that it leaves pending.
    pub left: u64,
}

impl Event<'_> {
    const fn name(&self) -> &'static str {
        match self {
            Self::Collected { .. } => "collect.finished",
            Self::SittingEnded(_) => "sitting.finished",
        }
    }

    fn body(&self, id: &str, time: &str) -> Value {
        let mut body = json!({"event": self.name(), "id": id, "time": time});
        let detail = match self {
            Self::Collected {
                experiment,
                summary,
            } => json!({
                "experiment": experiment,
                "counts": {"cells": summary.cells, "collected": summary.collected,
                           "skipped": summary.skipped, "failed": summary.failed},
                "interrupted": summary.interrupted,
            }),
            Self::SittingEnded(sat) => json!({
                "experiment": sat.experiment,
                "sitting": sat.sitting,
                "state": sat.state,
                "judge": {"kind": sat.judge.kind, "name": sat.judge.name, "tier": sat.judge.tier()},
                "counts": {"judged": sat.judged, "left": sat.left},
            }),
        };
        if let (Value::Object(body), Value::Object(detail)) = (&mut body, detail) {
            body.extend(detail);
        }
        body
    }
}

/// Sends the event where a webhook is configured.
pub fn notify(session: &Session, event: &Event<'_>) {
    if let Err(reason) = try_notify(session, event) {
        complain(&format!("warning: {}", safe(&reason)));
    }
}

fn try_notify(session: &Session, event: &Event<'_>) -> Result<(), String> {
    let unread = |error: &dyn std::fmt::Display| {
        format!("the webhook was not called, because the settings cannot be read: {error}")
    };
    let layers = session.layers(&TaskDefaults::default());
    let settings = layers.map_err(|error| unread(&error))?.finish();
    let settings = settings.map_err(|error| unread(&error))?.webhook;
    if settings.url.is_empty() {
        return Ok(());
    }
    let variable = &settings.secret_env;
    let secret = session.environment.get(variable).ok_or_else(|| {
        format!(
            "the webhook was not called, because {variable}, which should hold its secret, is not set"
        )
    })?;
    let bytes =
        environment::entropy().map_err(|error| format!("the webhook was not called: {error}"))?;
    let id = format!("msg_{}", hex(&bytes));
    let config = HttpConfig {
        timeout: TIMEOUT,
        retries: RETRIES,
        max_wait: LONGEST_WAIT,
        jitter_seed: environment::jitter_seed(),
        ..HttpConfig::default()
    };
    let webhook = Webhook::new(&settings.url, secret, &config);
    let webhook =
        webhook.map_err(|error| format!("the webhook was not called: {}", error.reason))?;
    let body = event.body(&id, &environment::now_rfc3339()).to_string();
    let now_s = || environment::now_ms() / 1000;
    webhook
        .deliver(&id, &body, &now_s)
        .map_err(|error| format!("the webhook was not called for {}: {error}", event.name()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_and_secrets_are_checked() {
        let problem = |url: &str, secret_env: &str| {
            let settings = WebhookSettings {
                url: url.to_owned(),
                secret_env: secret_env.to_owned(),
            };
            settings
                .problem()
                .map_or_else(String::new, |(key, message)| format!("{key} {message}"))
        };
        assert_eq!(problem("", ""), "");
        assert_eq!(problem("https://hooks.test/x", "HOOK"), "");
        assert!(problem("https://hooks.test/x", "").contains("secret_env"));
        assert!(problem("https://me:pw@hooks.test/x", "HOOK").contains("password"));
        assert!(problem("ftp://hooks.test", "HOOK").contains("http://"));
    }
}

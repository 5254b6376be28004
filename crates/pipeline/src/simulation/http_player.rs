//! A player that asks the HTTP service, as an application would.
//!
//! The exploration draw travels as `seed`, so the service makes the same choices as the policies in
//! this process do, if its settings are the same. Every player is a user of its own.

use std::collections::VecDeque;
use std::time::Duration;

use assize_http::{Address, Authorization, Client, HttpConfig, Options, Request};
use assize_policy::simulate::{Player, Situation};
use serde::Deserialize;
use serde_json::{Value, json};

use crate::{PipelineError, Result};

const TIMEOUT: Duration = Duration::from_secs(30);

/// The service that players ask.
#[derive(Debug)]
pub struct Service {
    client: Client,
}

impl Service {
    /// The service at `url`; nothing is asked of it yet.
    pub fn new(url: &str, token: Option<&str>) -> Result<Self> {
        let address = Address::parse(url)
            .map_err(|error| PipelineError::Invalid(format!("--via {url}: {error}")))?;
        let options = Options {
            authorization: token.map(|it| Authorization::Bearer(it.to_owned())),
            ..Options::default()
        };
        let config = HttpConfig {
            timeout: TIMEOUT,
            retries: 0,
            ..HttpConfig::default()
        };
        Ok(Self {
            client: Client::new(address, options, &config),
        })
    }

    fn call(&self, method: &'static str, path: &str, body: Option<&Value>) -> Result<Vec<u8>> {
        let mut request = Request::new(method, path);
        if let Some(body) = body {
            request = request.json(body);
        }
        let response = self.client.attempt(&request);
        let at = self.client.address().base();
        let response = response
            .map_err(|error| PipelineError::Service(format!("{at}{path} failed: {error}")))?;
        if !response.is_success() {
            return Err(PipelineError::Service(format!(
                "{at}{path} answered {}: {}",
                response.status,
                response.error_message()
            )));
        }
        Ok(response.body)
    }

    /// Removes a player's user with all decisions.
    pub fn forget(&self, user: &str) -> Result<()> {
        self.call("DELETE", &format!("/users/{user}"), None)?;
        Ok(())
    }
}

#[derive(Debug, Deserialize)]
struct Decision {
    decision_id: String,
    chosen: String,
}

/// One user of the service, in one policy.
#[derive(Debug)]
pub struct HttpPlayer<'a> {
    pub service: &'a Service,
    /// The policy's part of the route, `egreedy/v2`.
    pub route: &'static str,
    /// Letters, digits, `-`, `_` and `.` only.
    pub user: String,
    pub arms: &'a [String],
    pending: VecDeque<String>,
}

impl<'a> HttpPlayer<'a> {
    pub fn new(
        service: &'a Service,
        route: &'static str,
        user: String,
        arms: &'a [String],
    ) -> Self {
        Self {
            service,
            route,
            user,
            arms,
            pending: VecDeque::new(),
        }
    }
}

impl Player for HttpPlayer<'_> {
    type Error = PipelineError;

    fn choose(&mut self, situation: &Situation, draw: u64) -> Result<usize> {
        let candidates: Vec<Value> = self
            .arms
            .iter()
            .zip(&situation.task_matches)
            .map(|(arm, task_match)| json!({"id": arm, "arm": arm, "task_match": task_match}))
            .collect();
        let body = json!({
            "user_id": self.user,
            "context": situation.context,
            "profile_features": situation.profile,
            "candidates": candidates,
            "seed": draw,
        });
        let path = format!("/score/{}", self.route);
        let answer = self.service.call("POST", &path, Some(&body))?;
        let decision: Decision = serde_json::from_slice(&answer).map_err(|error| {
            PipelineError::Service(format!("{path} answered something else: {error}"))
        })?;
        let chosen = self.arms.iter().position(|it| *it == decision.chosen);
        self.pending.push_back(decision.decision_id);
        chosen.ok_or_else(|| {
            PipelineError::Service(format!(
                "{path} chose '{}', which is not a candidate",
                decision.chosen
            ))
        })
    }

    fn reward(&mut self, reward: f64) -> Result<()> {
        let Some(decision) = self.pending.pop_front() else {
            return Err(PipelineError::Internal(
                "a reward without a choice".to_owned(),
            ));
        };
        let body = json!({"decision_id": decision, "reward": reward});
        let path = format!("/reward/{}", self.route);
        self.service.call("POST", &path, Some(&body))?;
        Ok(())
    }

    fn replay(&mut self, _: &Situation, _: usize, _: f64) -> Result<()> {
        let problem =
            "over HTTP every policy learns from its own choices only: leave --warm-up out";
        Err(PipelineError::Invalid(problem.to_owned()))
    }
}

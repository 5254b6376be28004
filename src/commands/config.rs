//! `assize config`: the settings in force, each with its origin.

use assize_domain::task::TaskDefaults;
use assize_http::redacted;
use assize_report::text::width;
use serde_json::json;
use toml::Value;

use crate::Exit;
use crate::cli::Config;
use crate::output::safe;
use crate::session::Session;
use crate::settings::{InForce, Layers, documented};

const DEFAULT: &str = "default";
/// The column in which origins begin, unless a value is longer.
const ORIGIN_COLUMN: usize = 44;

pub fn run(session: &Session, args: &Config) -> anyhow::Result<Exit> {
    if args.defaults {
        session.output.data(&documented()?)?;
        return Ok(Exit::Done);
    }
    let defaults = session.task()?.defaults;
    let built_in = Layers::new(&TaskDefaults::default())?.in_force();
    let mut layers = session.layers(&defaults)?;
    layers.given(&args.options.0);
    let mut settings = layers.in_force();
    // Invalid values are an error here as in every other command.
    layers.finish()?;
    // The session has resolved the task already: it is shown with the tracking URI.
    settings.retain(|it| it.key != "task");
    for setting in &mut settings {
        setting.value = setting
            .value
            .take()
            .map(|value| public(&setting.key, value));
    }
    if session.output.json {
        let rows = settings.iter().map(|it| {
            let default = built_in.iter().find(|known| known.key == it.key);
            let value = json!({
                "value": it.value,
                "origin": it.origin.as_deref().unwrap_or(DEFAULT),
                "default": default.and_then(|it| it.value.clone()),
            });
            (it.key.clone(), value)
        });
        let rows: serde_json::Map<String, serde_json::Value> = rows.collect();
        session.output.json_pretty(&json!({
            "task": {"value": session.task_name, "origin": session.task_origin()},
            "tracking_uri": {"value": session.tracking_uri(), "origin": session.tracking_origin()},
            "settings": rows,
        }))?;
        return Ok(Exit::Done);
    }
    session.output.data(&safe(&listing(session, &settings)))?;
    Ok(Exit::Done)
}

/// The settings as TOML that could be a settings file, with origins as comments.
fn listing(session: &Session, settings: &[InForce]) -> String {
    let mut text = format!(
        "# task: {} ({})\n# tracking URI: {} ({})\n\n",
        session.task_name,
        session.task_origin(),
        session.tracking_uri(),
        session.tracking_origin(),
    );
    // Keys of tables come after those that are in none, and each table once.
    let mut sorted: Vec<(&str, &str, &InForce)> = settings
        .iter()
        .map(|it| match it.key.rsplit_once('.') {
            Some((table, name)) => (table, name, it),
            None => ("", it.key.as_str(), it),
        })
        .collect();
    sorted.sort_by(|a, b| a.0.cmp(b.0));
    let mut current = "";
    for (table, name, setting) in sorted {
        if table != current {
            text.push_str(&format!("\n[{table}]\n"));
            current = table;
        }
        let origin = setting.origin.as_deref().unwrap_or(DEFAULT);
        let (line, origin) = match &setting.value {
            Some(value) => (format!("{name} = {value}"), origin),
            None => (format!("#{name}"), "unset"),
        };
        let gap = " ".repeat(ORIGIN_COLUMN.saturating_sub(width(&line)).max(2));
        text.push_str(&format!("{line}{gap}# {origin}\n"));
    }
    text
}

/// A value without credentials: addresses may hold them, and the path of a webhook is often one.
fn public(key: &str, value: Value) -> Value {
    match value {
        Value::String(text) if key == "webhook.url" => {
            let address = redacted(&text);
            let end = address.find("://").map(|at| at + 3);
            let end = end.and_then(|at| Some(at + address.get(at..)?.find(['/', '?'])?));
            Value::String(match end {
                Some(end) => format!("{}/…", &address[..end]),
                None => address,
            })
        }
        Value::String(text) if text.contains("://") => {
            let address = redacted(&text);
            let address = address
                .split_once('?')
                .map_or(&*address, |(before, _)| before);
            Value::String(address.to_owned())
        }
        Value::Array(items) => Value::Array(items.into_iter().map(|it| public(key, it)).collect()),
        other => other,
    }
}

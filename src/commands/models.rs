//! `assize models`: what can be evaluated here, with real sizes.

use assize_domain::model::{ModelId, ProviderKind};
use assize_domain::task::TaskDefaults;
use assize_pipeline::events::{ListedModel, ModelList};
use serde_json::{Value, json};

use crate::Exit;
use crate::cli::Models;
use crate::output::progress::billions;
use crate::output::text_table::{Align, render};
use crate::session::Session;
use crate::settings::Settings;

pub fn run(session: &Session, args: &Models) -> anyhow::Result<Exit> {
    let settings = session.layers(&TaskDefaults::default())?.finish()?;
    match args {
        Models::List => list(session, &settings),
        Models::Pull { name } => {
            let pulled = pull(session, name)?;
            if session.output.json {
                session.output.json_line(&pulled)?;
            }
            Ok(Exit::Done)
        }
        Models::Show { model } => show(session, &settings, &model.parse()?),
    }
}

/// A model with the notes that are printed beside it.
struct Listed {
    listed: ListedModel,
    note: String,
}

fn list(session: &Session, settings: &Settings) -> anyhow::Result<Exit> {
    let mut listed = Vec::new();
    let mut unreachable = Vec::new();
    let mut hasty = settings.clone();
    hasty.options.retries = 0;
    hasty.options.timeout = hasty.options.timeout.min(5);
    let mut providers = session.providers(&hasty);
    let scripted = (!settings.options.script.is_empty()).then_some(ProviderKind::Scripted);
    for kind in [
        Some(ProviderKind::Embedded),
        Some(ProviderKind::Ollama),
        scripted,
        Some(ProviderKind::Command),
    ]
    .into_iter()
    .flatten()
    {
        let Ok(of_kind) = providers.of_kind(kind) else {
            continue;
        };
        for provider in of_kind {
            let names = match provider.list() {
                Ok(names) => names,
                Err(error) => {
                    unreachable.push(error.to_string());
                    continue;
                }
            };
            for name in names {
                let model = ModelId {
                    provider: kind,
                    name: name.clone(),
                }
                .to_string();
                let (parameter_count, note) = match provider.describe(&name) {
                    Ok(info) => (
                        info.parameter_count,
                        info.size_bytes.map(megabytes).unwrap_or_default(),
                    ),
                    Err(error) => (None, error.to_string()),
                };
                let admitted =
                    parameter_count.map(|count| count as f64 / 1e9 <= settings.options.max_model_b);
                let admitted = admitted.or_else(|| provider.is_hosted().then_some(true));
                let found = ListedModel {
                    model,
                    parameter_count,
                    admitted,
                };
                listed.push(Listed {
                    listed: found,
                    note,
                });
            }
        }
    }
    print_list(session, settings, &listed, &unreachable)
}

fn print_list(
    session: &Session,
    settings: &Settings,
    listed: &[Listed],
    unreachable: &[String],
) -> anyhow::Result<Exit> {
    if session.output.json {
        let pullable = pullable().into_iter();
        session.output.json_pretty(&ModelList {
            models: listed.iter().map(|it| it.listed.clone()).collect(),
            max_model_b: settings.options.max_model_b,
            unreachable: unreachable.to_vec(),
            pullable: pullable
                .map(|(name, about)| (name.to_owned(), about.to_owned()))
                .collect(),
        })?;
        return Ok(Exit::Done);
    }
    let rows: Vec<Vec<String>> = listed
        .iter()
        .map(|it| {
            let gate = match it.listed.admitted {
                Some(true) => "admitted".to_owned(),
                Some(false) => {
                    format!("rejected: larger than {:.1}B", settings.options.max_model_b)
                }
                None => "size unknown: --assume-size".to_owned(),
            };
            vec![
                it.listed.model.clone(),
                it.listed.parameter_count.map(billions).unwrap_or_default(),
                gate,
                it.note.clone(),
            ]
        })
        .collect();
    let headings = [
        ("model", Align::Left),
        ("size", Align::Right),
        ("gate", Align::Left),
        ("", Align::Left),
    ];
    if !rows.is_empty() {
        session
            .output
            .data(&render(&headings, &rows, session.output.width))?;
    }
    for reason in unreachable {
        session.output.say(&format!("  {reason}"));
    }
    for (name, about) in pullable().into_iter().filter(|(name, _)| {
        !listed
            .iter()
            .any(|it| it.listed.model == format!("embedded:{name}"))
    }) {
        session.output.say(&format!(
            "  embedded:{name} can be had: assize models pull {name} ({about})"
        ));
    }
    Ok(Exit::Done)
}

fn megabytes(bytes: u64) -> String {
    format!("{} MB", bytes / 1_000_000)
}

fn show(session: &Session, settings: &Settings, id: &ModelId) -> anyhow::Result<Exit> {
    let model = session.providers(settings).describe(id, settings)?;
    let admitted = model.is_within(settings.options.max_model_b);
    if session.output.json {
        session.output.json_pretty(&json!({
            "model": id, "parameter_count": model.parameter_count, "digest": model.info.digest,
            "provenance": model.info.provenance, "size_bytes": model.info.size_bytes,
            "context_length": model.info.context_length, "admitted": admitted, "max_model_b": settings.options.max_model_b,
        }))?;
        return Ok(Exit::Done);
    }
    let gate = if admitted { "admitted" } else { "rejected" };
    let mut text = format!(
        "{id}\n  parameters  {}\n  gate        {gate} at {:.1}B (--max-model-b)\n  digest      {}\n  engine      {}\n",
        model.parameter_count.map_or_else(
            || "not reported; the model is hosted elsewhere".to_owned(),
            |count| format!("{count} ({})", billions(count)),
        ),
        settings.options.max_model_b,
        model.info.digest,
        model.info.provenance,
    );
    if let Some(length) = model.info.context_length {
        text.push_str(&format!("  context     {length} tokens\n"));
    }
    if let Some(bytes) = model.info.size_bytes {
        text.push_str(&format!("  on disk     {}\n", megabytes(bytes)));
    }
    session.output.data(&text)?;
    Ok(Exit::Done)
}

#[cfg(feature = "embedded")]
fn pullable() -> Vec<(&'static str, &'static str)> {
    assize_llama::known_models().collect()
}

#[cfg(not(feature = "embedded"))]
fn pullable() -> Vec<(&'static str, &'static str)> {
    Vec::new()
}

/// Gets the weights of an embedded model; answers what it got.
#[cfg(feature = "embedded")]
pub fn pull(session: &Session, name: &str) -> anyhow::Result<Value> {
    use assize_llama::Progress;
    let bar = (session.output.is_interactive && !session.output.quiet)
        .then(|| indicatif::ProgressBar::new(0));
    let pulled = assize_llama::pull(
        &session.environment.models_dir(),
        name,
        &mut |progress| match (progress, &bar) {
            (Progress::Step(text), Some(bar)) => bar.suspend(|| session.output.say(&text)),
            (Progress::Step(text), None) => session.output.say(&text),
            (
                Progress::Bytes {
                    done_bytes,
                    total_bytes,
                },
                Some(bar),
            ) => {
                bar.set_length(total_bytes.unwrap_or(0));
                bar.set_position(done_bytes);
            }
            (Progress::Bytes { .. }, None) => {}
        },
    );
    if let Some(bar) = bar {
        bar.finish_and_clear();
    }
    let pulled = pulled?;
    let verb = if pulled.is_new {
        "is ready"
    } else {
        "was there already"
    };
    session.output.say(&format!(
        "embedded:{} {verb} ({})",
        pulled.name,
        pulled.path.display()
    ));
    Ok(
        json!({"model": format!("embedded:{}", pulled.name), "path": pulled.path, "new": pulled.is_new}),
    )
}

/// Gets the weights of an embedded model.
#[cfg(not(feature = "embedded"))]
pub fn pull(_session: &Session, _name: &str) -> anyhow::Result<Value> {
    let message =
        "this build has no embedded engine: build with the default features, or use ollama pull";
    Err(assize_pipeline::PipelineError::Invalid(message.to_owned()).into())
}

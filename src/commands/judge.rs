//! `assize judge …`: hand out blind cases, take scores back, ask a model, look how far it is.

use std::io::{Read as _, Write as _};
use std::path::{Path, PathBuf};

use anyhow::Context as _;
use assize_domain::model::ProviderKind;
use assize_pipeline::gate;
use assize_pipeline::judge::apply::{self, ApplyOptions};
use assize_pipeline::judge::auto::{AutoJudge, AutoSummary};
use assize_pipeline::judge::export::{self, Export, ExportOptions};
use assize_pipeline::{PipelineError, Result as PipelineResult};
use serde_json::json;

use crate::Exit;
use crate::cli::{Judge, ProviderFlags};
use crate::environment;
use crate::output::progress::Counter;
use crate::session::{self, Session};

pub fn run(session: &Session, args: &Judge) -> anyhow::Result<Exit> {
    match args {
        Judge::Export {
            experiment,
            out,
            limit,
            judge_kind,
            seed,
        } => {
            let options = ExportOptions {
                experiment: experiment.clone(),
                judge_kind: judge_kind.clone(),
                limit: *limit,
                seed: *seed,
            };
            export(session, &options, out)
        }
        Judge::Apply {
            file,
            judge_kind,
            judged_by,
            partial,
        } => {
            let options = ApplyOptions {
                file: file.display().to_string(),
                judge_kind: judge_kind.clone(),
                judged_by: judged_by.clone(),
                user: session.environment.user(),
                partial: *partial,
            };
            apply(session, file, &options)
        }
        Judge::Auto {
            experiment,
            judge,
            provider,
        } => auto(session, experiment, judge, provider),
        Judge::Status { experiment } => status(session, experiment),
    }
}

fn export(session: &Session, options: &ExportOptions, out: &Path) -> anyhow::Result<Exit> {
    let store = session.store(true)?;
    let exported = export::export(
        store.as_ref(),
        options,
        &environment::now_rfc3339(),
        environment::entropy,
    )?;
    let Some(export) = exported else {
        session.output.say(&format!(
            "Nothing is pending in {}: no file was written.",
            options.experiment
        ));
        return Ok(Exit::Done);
    };
    let text = judge_file_text(&export)?;
    if let Some(kept) = keep_aside(out)? {
        session.output.say(&format!(
            "{} was there already and is now {}.",
            out.display(),
            kept.display()
        ));
    }
    // The record comes first: a file without one could never be applied.
    store.sitting_open(&export.sitting)?;
    if out == Path::new("-") {
        session.output.data(&text)?;
    } else {
        write_whole(out, &text)?;
    }
    let file = out.display();
    if export.left_under_other_rubrics > 0 {
        session.output.say(&format!(
            "{} runs wait under an older rubric; export again once these are judged.",
            export.left_under_other_rubrics
        ));
    }
    session.output.say(&format!(
        "{} cases of {} runs in {file} (sitting {}).\nNext: fill in the scores, then assize judge apply {file}",
        export.cases.len(),
        export.sitting.runs.len(),
        export.sitting.id,
    ));
    Ok(Exit::Done)
}

/// Puts an older file of that name aside: it may hold scores that nobody has applied yet.
fn keep_aside(out: &Path) -> anyhow::Result<Option<PathBuf>> {
    if out == Path::new("-") || !out.exists() {
        return Ok(None);
    }
    let name = out
        .file_name()
        .map(|name| name.to_string_lossy().into_owned())
        .unwrap_or_default();
    let aside = (1..10_000)
        .map(|n| out.with_file_name(format!("{name}.{n}.bak")))
        .find(|path| !path.exists());
    let Some(aside) = aside else { return Ok(None) };
    std::fs::rename(out, &aside).with_context(|| format!("cannot put {} aside", out.display()))?;
    Ok(Some(aside))
}

/// The file, with one case a line so that it can be edited and diffed.
fn judge_file_text(export: &Export) -> anyhow::Result<String> {
    let head = serde_json::to_string_pretty(&export.head)?;
    let head = head.trim_end().trim_end_matches('}').trim_end();
    let mut text = format!("{head},\n  \"cases\": [");
    for (position, case) in export.cases.iter().enumerate() {
        text.push_str(if position == 0 { "\n" } else { ",\n" });
        for line in serde_json::to_string_pretty(case)?.lines() {
            text.push_str("    ");
            text.push_str(line);
            text.push('\n');
        }
        text.truncate(text.trim_end().len());
    }
    text.push_str("\n  ]\n}\n");
    Ok(text)
}

/// Writes a whole file or none: a full disk leaves no half of it behind.
pub fn write_whole(path: &Path, text: &str) -> anyhow::Result<()> {
    let name = path
        .file_name()
        .map(|name| name.to_string_lossy().into_owned())
        .unwrap_or_default();
    let partial = path.with_file_name(format!(".{name}.{}.partial", std::process::id()));
    let write = || -> std::io::Result<()> {
        let mut file = std::fs::File::create(&partial)?;
        file.write_all(text.as_bytes())?;
        file.sync_all()?;
        std::fs::rename(&partial, path)
    };
    write()
        .inspect_err(|_| {
            let _ = std::fs::remove_file(&partial);
        })
        .with_context(|| format!("cannot write {}", path.display()))
}

fn apply(session: &Session, file: &Path, options: &ApplyOptions) -> anyhow::Result<Exit> {
    if let Some(kind) = options
        .judge_kind
        .as_deref()
        .filter(|kind| !assize_domain::judge::is_kind(kind))
    {
        let message = format!("--judge-kind is '{kind}': use a kind such as human or claude-code");
        return Err(PipelineError::Invalid(message).into());
    }
    if let Some(name) = options
        .judged_by
        .as_deref()
        .filter(|name| !assize_domain::judge::is_name(name))
    {
        let message = format!("--judged-by is '{name}': use a name without control characters");
        return Err(PipelineError::Invalid(message).into());
    }
    let mut text = String::new();
    if file == Path::new("-") {
        std::io::stdin()
            .read_to_string(&mut text)
            .context("cannot read stdin")?;
    } else {
        text = std::fs::read_to_string(file)
            .with_context(|| format!("cannot read {}", file.display()))?;
    }
    let store = session.store(true)?;
    let applied = apply::apply(store.as_ref(), &text, options, &environment::now_rfc3339())?;
    if session.output.json {
        session.output.json_line(&applied)?;
    }
    let written = applied.committed.runs_written;
    let judge = &applied.judge;
    session.output.say(&match written {
        0 => format!(
            "Nothing to write: these {} verdicts were there already.",
            applied.cases
        ),
        _ => format!(
            "{} verdicts by {} ({}, {} tier) on {written} runs of {}.",
            applied.cases, judge.name, judge.kind, applied.tier, applied.experiment
        ),
    });
    if applied.dropped > 0 {
        session.output.say(&format!(
            "{} cases were passed over: their runs were deleted.",
            applied.dropped
        ));
    }
    if applied.unscored > 0 {
        session.output.say(&format!(
            "{} cases are unscored and stay pending.",
            applied.unscored
        ));
    }
    session.output.say(&format!(
        "Next: assize compare --experiment {}",
        applied.experiment
    ));
    Ok(Exit::Done)
}

fn auto(
    session: &Session,
    experiment: &str,
    judge: &str,
    flags: &ProviderFlags,
) -> anyhow::Result<Exit> {
    let stop = session::stop_flag()?;
    let summary = judge_automatically(session, experiment, judge, flags, &stop)?;
    if session.output.json {
        session.output.json_line(&summary)?;
    }
    session.output.say(&format!(
        "{} runs judged by {judge} ({} verdicts), {} left pending.",
        summary.judged, summary.verdicts, summary.left_pending
    ));
    for reason in &summary.reasons {
        session
            .output
            .say(&format!("  left pending: {}", crate::output::safe(reason)));
    }
    if summary.interrupted {
        return Ok(Exit::Interrupted);
    }
    if summary.left_pending > 0 {
        return Ok(Exit::CellsFailed);
    }
    session.output.say(&format!(
        "Next: assize compare --experiment {experiment} --tier auto"
    ));
    Ok(Exit::Done)
}

/// Runs an automatic judge, with progress.
pub fn judge_automatically(
    session: &Session,
    experiment: &str,
    judge: &str,
    flags: &ProviderFlags,
    stop: &std::sync::atomic::AtomicBool,
) -> anyhow::Result<AutoSummary> {
    let mut layers = session.layers(&assize_domain::task::TaskDefaults::default())?;
    session::apply_provider_flags(&mut layers, flags);
    let settings = layers.finish()?;
    let id: assize_domain::model::ModelId = judge.parse()?;
    let store = session.store(true)?;
    let mut providers = session.providers(&settings);
    let model = describe_judge(&mut providers, &id, &settings)?;
    let guard = session.guard(flags.evict)?;
    let judge = AutoJudge {
        store: store.as_ref(),
        experiment,
        model: &model,
        guard: &guard,
        jobs: settings.jobs,
        // A rubric with anchors is long; a context that cannot hold it would fail every case.
        num_ctx: settings.num_ctx.max(3072),
        max_tokens: 160,
        seed: settings.seed,
        now: environment::now_rfc3339,
        entropy: environment::entropy,
        stop,
    };
    let progress = Counter::new(&session.output, "judging", "runs");
    let summary = judge.run(&|done, total| progress.set(done, total));
    progress.finish();
    Ok(summary?)
}

/// A judge obeys the size gate like any model; one behind an API holds no weights here.
fn describe_judge(
    providers: &mut session::Providers,
    id: &assize_domain::model::ModelId,
    settings: &crate::settings::Settings,
) -> anyhow::Result<gate::Sized> {
    let of_kind = providers.of_kind(id.provider)?;
    let mut sizes = settings.assumed_sizes();
    if id.provider == ProviderKind::OpenAi {
        sizes.entry(id.to_string()).or_insert(f64::MIN_POSITIVE);
    }
    let model = gate::describe(id, &of_kind, &sizes)?;
    if id.provider == ProviderKind::OpenAi {
        return Ok(model);
    }
    let (mut admitted, rejected) = gate::admit(vec![model], settings.max_model_b);
    let gated: PipelineResult<gate::Sized> = admitted.pop().ok_or_else(|| {
        let reason = rejected
            .first()
            .map(|it| it.reason.clone())
            .unwrap_or_default();
        PipelineError::Invalid(format!(
            "the judge {id} was rejected by the size gate: {reason}"
        ))
    });
    Ok(gated?)
}

fn status(session: &Session, experiment: &str) -> anyhow::Result<Exit> {
    let store = session.store(true)?;
    let counts = store.judging_counts(experiment)?;
    if session.output.json {
        session.output.json_pretty(&json!({
            "experiment": experiment,
            "runs": counts.runs, "candidates": counts.candidates, "failed": counts.failed,
            "expert": {"pending": counts.expert_pending, "judged": counts.expert_judged},
            "auto": {"pending": counts.auto_pending, "judged": counts.auto_judged},
            "pending_by_kind": counts.pending_by_kind.iter().cloned().collect::<std::collections::BTreeMap<_, _>>(),
        }))?;
        return Ok(Exit::Done);
    }
    let desks: Vec<String> = counts
        .pending_by_kind
        .iter()
        .map(|(kind, runs)| format!("{runs} on the desk of {kind}"))
        .collect();
    let desks = if desks.is_empty() {
        String::new()
    } else {
        format!("  ({})", desks.join(", "))
    };
    let mut text = format!(
        "{experiment}: {} runs, {} candidates\n\n  tier     judged  pending\n  expert  {:>7}  {:>7}{desks}\n  auto    {:>7}  {:>7}\n",
        counts.runs,
        counts.candidates,
        counts.expert_judged,
        counts.expert_pending,
        counts.auto_judged,
        counts.auto_pending,
    );
    if counts.failed > 0 {
        text.push_str(&format!(
            "\n  {} cells failed: the same collect tries them again\n",
            counts.failed
        ));
    }
    session.output.data(&text)?;
    if counts.expert_pending > 0 {
        session.output.say(&format!(
            "Next: assize judge export --experiment {experiment} --out judge.json"
        ));
    } else {
        session
            .output
            .say(&format!("Next: assize compare --experiment {experiment}"));
    }
    Ok(Exit::Done)
}

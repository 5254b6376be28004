//! `assize judge auto`: a model scores what the automatic tier has not seen.

use std::sync::atomic::AtomicBool;

use assize_domain::anchor::Anchors;
use assize_domain::judge::{Judge, Tier};
use assize_domain::model::{ModelId, ProviderKind};
use assize_domain::own_model;
use assize_domain::sitting::SittingState;
use assize_domain::task::TaskDefaults;
use assize_pipeline::events::{JobEvent, JobProgress};
use assize_pipeline::judge::auto::{AutoJudge, AutoSummary, Prices};
use assize_pipeline::{PipelineError, Result as PipelineResult, count, size_gate};
use assize_store::Tracking;

use crate::Exit;
use crate::cli::{AutoFlags, GivenOptions};
use crate::environment;
use crate::output::progress::{Count, Counter};
use crate::output::safe;
use crate::session::{self, Session};
use crate::settings::Settings;
use crate::webhook::{self, Event, Sat};

/// A rubric with anchors is long; a context that cannot hold it would fail every case.
const LEAST_CONTEXT: u32 = 3072;
/// A short reason and the scores.
const MAX_TOKENS: u32 = 200;

pub fn run(
    session: &Session,
    experiment: &str,
    judge: &str,
    no_anchors: bool,
    flags: &AutoFlags,
) -> anyhow::Result<Exit> {
    let stop = session::stop_flag()?;
    let store = session.store(true)?;
    let anchors = session.anchors(store.as_ref(), experiment, no_anchors)?;
    warn(session, store.as_ref(), experiment, judge)?;
    let work = (store.as_ref(), experiment);
    let summary = judge_automatically(session, work, judge, anchors, flags, &stop)?;
    if session.output.json {
        let event = JobEvent::Judged(Box::new(summary.clone()));
        session.output.json_line(&event)?;
    }
    say(session, judge, &summary);
    if summary.interrupted {
        return Ok(Exit::Interrupted);
    }
    tell(session, experiment, judge, &summary);
    super::say_not_computed(session, store.as_ref(), experiment, Tier::Auto)?;
    if let Some(reason) = &summary.gave_up {
        anyhow::bail!(
            "{judge} failed too often in a row, so judging stopped: {reason}. What was judged is \
             kept; the same command continues where it stopped"
        );
    }
    if summary.cap_reached {
        session.output.say(
            "Stopped before --max-cost would be passed; the rest stays pending. The same command with \
             a higher cap continues from here.",
        );
        return Ok(Exit::Refused);
    }
    if let (true, Some(sitting)) = (summary.is_quarantined(), &summary.sitting) {
        let words = super::quarantined(session, sitting, Tier::Auto, summary.drift);
        session.output.say(&words);
        return Ok(Exit::Refused);
    }
    if summary.left_pending > 0 {
        return Ok(Exit::CellsFailed);
    }
    let next = [("--experiment", experiment), ("--tier", "auto")];
    session.output.say(&session.next("compare", &next));
    Ok(Exit::Done)
}

/// Says where the judge would score its own model or family.
fn warn(
    session: &Session,
    store: &dyn Tracking,
    experiment: &str,
    judge: &str,
) -> anyhow::Result<()> {
    let pairs = store.pair_list(experiment)?;
    let models = pairs.iter().map(|it| it.model.as_str());
    for warning in own_model::warnings([judge], models) {
        session.output.say(&safe(&format!("Note: {warning}.")));
    }
    Ok(())
}

/// Tells the webhook, where there was anything to judge.
fn tell(session: &Session, experiment: &str, judge: &str, summary: &AutoSummary) {
    if summary.verdicts + summary.left_pending == 0 {
        return;
    }
    let judge = Judge {
        kind: judge.to_owned(),
        name: judge.to_owned(),
        version: None,
    };
    let sat = Sat {
        experiment,
        sitting: summary.sitting.as_deref(),
        judge: &judge,
        state: if summary.is_quarantined() {
            SittingState::Quarantined
        } else {
            SittingState::Closed
        },
        judged: summary.verdicts,
        left: summary.left_pending,
    };
    webhook::notify(session, &Event::SittingEnded(sat));
}

fn say(session: &Session, judge: &str, summary: &AutoSummary) {
    let output = &session.output;
    let count = |number: u64, noun| count(usize::try_from(number).unwrap_or(usize::MAX), noun);
    output.say(&format!(
        "{} judged by {} ({}), {} left pending.",
        count(summary.judged, "run"),
        safe(judge),
        count(summary.verdicts, "verdict"),
        summary.left_pending
    ));
    let usage = &summary.usage;
    if usage.prompt_tokens > 0 {
        let cost = usage
            .cost_usd
            .map_or_else(String::new, |cost| format!(", ${cost:.4}"));
        output.say(&format!(
            "{} read, {} written{cost}.",
            count(usage.prompt_tokens, "token"),
            usage.completion_tokens
        ));
    }
    for reason in &summary.reasons {
        output.say(&format!("  left pending: {}", safe(reason)));
    }
}

/// Runs an automatic judge, with progress.
pub fn judge_automatically(
    session: &Session,
    (store, experiment): (&dyn Tracking, &str),
    judge: &str,
    anchors: Anchors,
    flags: &AutoFlags,
    stop: &AtomicBool,
) -> anyhow::Result<AutoSummary> {
    let mut layers = session.layers(&TaskDefaults::default())?;
    let given = &flags.options.0;
    layers.given(given);
    let settings = layers.finish()?;
    let id: ModelId = judge.parse()?;
    check_spending(&id, given.number("max_cost"), &settings)?;
    let mut providers = session.providers(&settings);
    let model = describe_helper(&mut providers, "judge", &id, &settings)?;
    let guard = session.guard(&settings.options)?;
    let judge = AutoJudge {
        store,
        experiment,
        anchors,
        model: &model,
        guard: &guard,
        jobs: settings.options.jobs,
        num_ctx: settings.options.num_ctx.max(LEAST_CONTEXT),
        max_tokens: MAX_TOKENS,
        seed: settings.options.seed,
        limit: Some(flags.limit as usize).filter(|it| *it > 0),
        max_cost_usd: Some(settings.options.max_cost).filter(|cap| *cap > 0.0),
        prices: settings.prices().map(|(input_usd, output_usd)| Prices {
            input_usd,
            output_usd,
        }),
        now: environment::now,
        entropy: environment::entropy,
        stop,
    };
    let progress = Counter::new(&session.output, "judging", "cases");
    let summary = judge.run(&|now| {
        let cost = now.cost_usd.map(|cost| format!("${cost:.4}"));
        progress.set(Count {
            done: now.done,
            total: now.total,
            cost: cost.as_deref(),
            engine: now
                .activity
                .map(|it| (it, now.completion_tokens, MAX_TOKENS)),
        });
        if session.output.json && flags.events {
            let event = JobEvent::Progress(JobProgress {
                done: now.done,
                total: now.total,
                cost_usd: now.cost_usd,
            });
            // A closed pipe is ignored here: the outcome is reported again at the end.
            let _ = session.output.json_line(&event);
        }
    });
    progress.finish();
    Ok(summary?)
}

/// A cap on what costs nothing would be a promise without a meaning. One in `assize.toml` is for
/// whichever judge costs something.
pub fn check_spending(
    id: &ModelId,
    max_cost: Option<f64>,
    settings: &Settings,
) -> PipelineResult<()> {
    let is_free = matches!(id.provider, ProviderKind::Ollama | ProviderKind::Embedded);
    if max_cost.is_some() && is_free && settings.prices().is_none() {
        return Err(PipelineError::Invalid(format!(
            "{id} runs locally and costs nothing, so --max-cost would never stop it: omit it, or \
             name a price with --price-per-mtok IN,OUT"
        )));
    }
    Ok(())
}

/// Finds out whether a judge can be used, before anything is generated for it.
pub fn check_judge(session: &Session, judge: &str, given: &GivenOptions) -> anyhow::Result<()> {
    let mut layers = session.layers(&TaskDefaults::default())?;
    layers.given(given);
    let settings = layers.finish()?;
    let id: ModelId = judge.parse()?;
    describe_helper(&mut session.providers(&settings), "judge", &id, &settings).map(|_| ())
}

/// A judge or reflector obeys the size gate like any model; one behind an API holds no weights here.
pub fn describe_helper(
    providers: &mut session::Providers,
    role: &str,
    id: &ModelId,
    settings: &Settings,
) -> anyhow::Result<size_gate::SizedModel> {
    let of_kind = providers.of_kind(id.provider)?;
    let mut sizes = settings.assumed_sizes();
    if id.provider == ProviderKind::OpenAi {
        sizes.entry(id.to_string()).or_insert(f64::MIN_POSITIVE);
    }
    let model = size_gate::describe(id, &of_kind, &sizes)?;
    if id.provider == ProviderKind::OpenAi {
        return Ok(model);
    }
    let (mut admitted, rejected) = size_gate::admit(vec![model], settings.options.max_model_b);
    let gated: PipelineResult<size_gate::SizedModel> = admitted.pop().ok_or_else(|| {
        let reason = rejected
            .first()
            .map(|it| it.reason.clone())
            .unwrap_or_default();
        PipelineError::Invalid(format!(
            "the {role} {id} was rejected by the size gate: {reason}"
        ))
    });
    Ok(gated?)
}

//! What to do next where the gate fails.

use assize_domain::builtin;
use std::borrow::Cow;

use assize_domain::judge::Tier;
use assize_domain::options::{Identity, Kind, OPTIONS, OptionSpec};
use assize_domain::promotion::{Check, GateReport, Outcome};
use assize_domain::scenario::Split;
use assize_stats::e_process::{EProcessSettings, further_blocks};
use assize_stats::{Draws, describe};

use super::PromoteOptions;
use super::evidence::Proposal;
use crate::compare::read::PairKey;

/// One step: a command to type, or advice.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Step {
    /// `assize VERB` with these flags, whose values are not quoted yet; a flag that takes no
    /// value has an empty one.
    Command {
        verb: &'static str,
        flags: Vec<(String, String)>,
    },
    Words(Cow<'static, str>),
}

/// The steps that would let the failed checks pass, or show that they should not.
pub fn steps(report: &GateReport, proposal: &Proposal, options: &PromoteOptions<'_>) -> Vec<Step> {
    let failed = |name: &str| {
        let mut failures = report.failures();
        failures.any(|check| check.name == name || check.name.starts_with(&format!("{name}.")))
    };
    let unanswered = |check: &Check| check.figure.is_none();
    let missing_confirmation = report
        .check("confirmation")
        .is_some_and(|it| it.outcome == Outcome::Failed && unanswered(it));
    let mut steps = Vec::new();
    let mut judge: Vec<Tier> = Vec::new();
    if missing_confirmation {
        let pairs = [&proposal.candidate, &proposal.incumbent];
        let both = pairs.into_iter().zip(&proposal.params);
        steps.extend(both.map(|it| collect(it, Split::Confirmation, options)));
        judge.push(report.tier);
    }
    if failed("missing_cells") {
        let pairs = [&proposal.candidate, &proposal.incumbent];
        let both = pairs.into_iter().zip(&proposal.params);
        steps.extend(both.map(|it| collect(it, Split::Selection, options)));
        judge.push(report.tier);
    }
    judge.extend(unjudged(report, proposal));
    for (check, split) in [
        ("judged_alike", Split::Selection),
        ("confirmation.judged_alike", Split::Confirmation),
    ] {
        if failed(check) {
            steps.push(reopen(report, split, options));
            judge.push(report.tier);
        }
    }
    if failed("family") {
        judge.push(report.tier);
    }
    if proposal.evidence.is_computed {
        judge.clear();
    }
    judge.sort();
    judge.dedup();
    steps.extend(
        judge
            .into_iter()
            .flat_map(|tier| judge_steps(tier, options)),
    );
    steps.extend(remedies(&failed));
    let is_unconfirmed = report
        .check("confirmation")
        .is_some_and(|it| it.outcome == Outcome::Failed && it.figure.is_some());
    if is_unconfirmed {
        steps.extend(more_confirmation(proposal, options));
    }
    if failed("flag") || failed("worst_scenario") || failed("worst_segment") {
        let has_won = report
            .check("p_adjusted")
            .is_some_and(|it| it.outcome == Outcome::Passed);
        steps.push(Step::Words(Cow::Borrowed(if has_won {
            "The win has a cost: correct the prompt for what got worse, and collect it as a new \
             version."
        } else {
            "Correct the prompt for what got worse, and collect it as a new version."
        })));
    }
    if steps.is_empty() && !report.passed {
        steps.push(Step::Words(Cow::Borrowed(
            "The evidence does not support this promotion: add scenarios to the task, collect and judge \
             them, or look for a better pair.",
        )));
    }
    steps
}

/// The tiers whose verdicts a check lacks.
fn unjudged(report: &GateReport, proposal: &Proposal) -> Vec<Tier> {
    let lacks = |tier: &Tier| {
        let mut tiers = proposal.evidence.tiers.iter();
        let judged = tiers.find(|it| it.tier == *tier);
        judged.is_none_or(|it| it.missing_cells > 0)
    };
    let has_failed = |it: &Check| it.outcome == Outcome::Failed;
    let mut tiers: Vec<Tier> = Vec::new();
    if report.check("double_scored").is_some_and(has_failed) {
        tiers.extend(Tier::ALL.into_iter().filter(lacks));
    }
    let unranked = |tier: &Tier| {
        let rank = report.check(&format!("rank.{tier}"));
        rank.is_some_and(|it| has_failed(it) && it.figure.is_none())
    };
    tiers.extend(Tier::ALL.into_iter().filter(unranked));
    tiers
}

/// Advice for checks that no single command repairs.
fn remedies(failed: &dyn Fn(&str) -> bool) -> Vec<Step> {
    let advice = [
        (
            "judge_bias",
            "The automatic tier favours one of the pairs: look at where the tiers differ, sharpen the \
             rubric's anchors or take another automatic judge, and judge again.",
        ),
        (
            "champion",
            "The candidate does not beat the champion: leave --incumbent out to see the whole comparison with it.",
        ),
        (
            "same_settings",
            "Collect both pairs with the same settings into another experiment, and judge them side by side \
             there.",
        ),
        (
            "failed_candidates",
            "Find out why the requests failed (assize runs show), correct that, and collect these cells \
             again: what failed may be what was hard.",
        ),
        (
            "confirmation.margin",
            "On unseen scenarios the difference is smaller than the margin: look for a better pair.",
        ),
    ];
    let found = advice.into_iter().filter(|(name, _)| failed(name));
    found
        .map(|(_, words)| Step::Words(Cow::Borrowed(words)))
        .collect()
}

/// More scenarios than this are never proposed.
const MOST_SCENARIOS: usize = 500;
/// Simulated continuations of the confirmation's test.
const CONTINUATIONS: usize = 200;

/// How many more scenarios would confirm the candidate, if the difference so far holds.
fn more_confirmation(proposal: &Proposal, options: &PromoteOptions<'_>) -> Option<Step> {
    let found = proposal.evidence.confirmation.as_ref()?;
    let mean = describe::mean(&found.differences).filter(|mean| *mean > 0.0)?;
    let settings = EProcessSettings {
        scale: found.scale,
        alpha: options.thresholds.level,
    };
    let draws = Draws {
        count: CONTINUATIONS,
        seed: options.seed,
    };
    let (differences, scale) = (&found.differences, found.scale);
    let more = further_blocks(differences, mean, scale, MOST_SCENARIOS, settings, draws);
    let words = match more.ok()?.p80 {
        Some(more) => format!(
            "Add {more} scenarios to the confirmation split, collect and judge both pairs there, and promote again: \
             if the difference of {mean:+.2} holds, that is enough in 80 % of cases, and the test stays valid."
        ),
        None => format!(
            "A difference of {mean:+.2} on the confirmation split would need more than {MOST_SCENARIOS} scenarios: look \
             for a better pair."
        ),
    };
    Some(Step::Words(Cow::Owned(words)))
}

/// The command after which both pairs are judged again, side by side.
fn reopen(report: &GateReport, split: Split, options: &PromoteOptions<'_>) -> Step {
    let pairs = format!("{},{}", report.candidate.id(), report.incumbent.id());
    let flags = [
        ("--experiment", options.experiment.to_owned()),
        ("--pairs", pairs),
        ("--tier", report.tier.to_string()),
        ("--split", split.to_string()),
    ];
    Step::Command {
        verb: "judge reopen",
        flags: flags
            .into_iter()
            .map(|(name, value)| (name.to_owned(), value))
            .collect(),
    }
}

/// The command that collects one pair, as the experiment was collected.
fn collect(
    (pair, params): (&PairKey, &Vec<(String, String)>),
    split: Split,
    options: &PromoteOptions<'_>,
) -> Step {
    let flag = |name: &str, value: &str| (format!("--{name}"), value.to_owned());
    let mut flags = vec![
        flag("experiment", options.experiment),
        flag("models", &pair.model),
        flag("prompts", &pair.prompt),
        flag("split", &split.to_string()),
    ];
    let swept = pair.settings.iter();
    flags.extend(swept.map(|(key, value)| flag("sweep", &format!("{key}={value}"))));
    let is_own = |it: &&OptionSpec| is_repeated(it) && pair.settings.get(it.key).is_none();
    for option in OPTIONS.iter().filter(is_own) {
        let found = params.iter().find(|(key, _)| key == option.key);
        match (option.kind, found.map_or("", |(_, value)| value)) {
            (_, "") | (Kind::Switch, "false") => {}
            (Kind::Switch, _) => flags.push(flag(option.flag, "")),
            (Kind::List, values) if option.repeats => {
                flags.extend(values.split(',').map(|it| flag(option.flag, it)));
            }
            (_, value) => flags.push(flag(option.flag, value)),
        }
    }
    if options.task_name != builtin::DEFAULT {
        flags.push(flag("task", options.task_name));
    }
    Step::Command {
        verb: "collect",
        flags,
    }
}

/// Whether an option changes the output, or says where a model is found.
fn is_repeated(option: &OptionSpec) -> bool {
    matches!(option.identity, Identity::Always | Identity::WhereChanged)
        || ["base_url", "script"].contains(&option.key)
}

fn judge_steps(tier: Tier, options: &PromoteOptions<'_>) -> Vec<Step> {
    let step = |verb, flag: &str, value: &str| Step::Command {
        verb,
        flags: vec![
            ("--experiment".to_owned(), options.experiment.to_owned()),
            (String::from(flag), value.to_owned()),
        ],
    };
    match tier {
        Tier::Auto => vec![Step::Words(Cow::Owned(format!(
            "Let a model of your choice judge {}: assize judge auto with --judge.",
            options.experiment
        )))],
        Tier::Expert => vec![
            step("judge export", "--out", "judge.json"),
            Step::Command {
                verb: "judge apply judge.json",
                flags: Vec::new(),
            },
        ],
    }
}

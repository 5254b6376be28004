//! What to do where the gate says no.

use assize_domain::judge::Tier;
use assize_domain::promotion::{Check, GateReport, Outcome};
use assize_domain::scenario::Split;

use super::PromoteOptions;
use super::evidence::Case;
use crate::compare::read::Arm;

/// One step: a command to type, as words that nobody has quoted yet, or advice.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Step {
    Command(Vec<String>),
    Words(&'static str),
}

/// Params that change the output, as collect's flags.
const SHAPING: [&str; 5] = ["n_tips", "temperature", "max_tokens", "num_ctx", "seed"];

/// The steps that would let the failed checks pass, or show that they should not.
pub fn steps(report: &GateReport, case: &Case, options: &PromoteOptions<'_>) -> Vec<Step> {
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
        let pairs = [&case.candidate, &case.incumbent];
        steps.extend(pairs.map(|arm| collect(arm, Split::Confirmation, case, options)));
        judge.push(report.tier);
    }
    if failed("missing_cells") {
        let pairs = [&case.candidate, &case.incumbent];
        steps.extend(pairs.map(|arm| collect(arm, Split::Selection, case, options)));
        judge.push(report.tier);
    }
    if failed("double_scored") {
        judge.extend(Tier::ALL);
    }
    for tier in Tier::ALL {
        let rank = report.check(&format!("rank.{tier}"));
        if rank.is_some_and(unanswered) {
            judge.push(tier);
        }
    }
    judge.sort();
    judge.dedup();
    steps.extend(judge.into_iter().flat_map(|tier| judge_steps(tier, options)));
    if failed("agreement") || failed("bias") {
        steps.push(Step::Words(
            "The tiers do not agree well enough: look at where they differ, sharpen the rubric's \
             anchors or take another automatic judge, and judge again.",
        ));
    }
    if failed("flag") || failed("worst_scenario") {
        steps.push(Step::Words(
            "The win has a price: mend the prompt for what got worse, and collect it as a new version.",
        ));
    }
    if steps.is_empty() && !report.passed {
        steps.push(Step::Words(
            "The evidence does not carry this promotion: add scenarios to the task, collect and judge \
             them, or look for a better pair.",
        ));
    }
    steps
}

/// The command that collects one pair, as the experiment was collected.
fn collect(arm: &Arm, split: Split, case: &Case, options: &PromoteOptions<'_>) -> Step {
    let mut words = command("collect", options);
    words.extend(["--models".to_owned(), arm.model.clone()]);
    words.extend(["--prompts".to_owned(), arm.prompt.clone()]);
    words.extend(["--split".to_owned(), split.to_string()]);
    let param = |key: &str| {
        let found = case.params.iter().find(|(name, _)| name == key);
        found.map(|(_, value)| value.clone())
    };
    for key in SHAPING {
        if let Some(value) = param(key) {
            words.extend([format!("--{}", key.replace('_', "-")), value]);
        }
    }
    if param("diversity").as_deref() == Some("true") {
        words.push("--diversity".to_owned());
    }
    for key in ["script", "base_url"] {
        if let Some(value) = param(key).filter(|it| !it.is_empty()) {
            words.extend([format!("--{}", key.replace('_', "-")), value]);
        }
    }
    Step::Command(words)
}

fn judge_steps(tier: Tier, options: &PromoteOptions<'_>) -> Vec<Step> {
    let mut words = command("judge", options);
    match tier {
        Tier::Auto => {
            words.insert(2, "auto".to_owned());
            words.extend(["--judge".to_owned(), "MODEL".to_owned()]);
            vec![Step::Command(words)]
        }
        Tier::Expert => {
            words.insert(2, "export".to_owned());
            words.extend(["--out".to_owned(), "judge.json".to_owned()]);
            let apply = ["assize", "judge", "apply", "judge.json"];
            vec![
                Step::Command(words),
                Step::Command(apply.map(str::to_owned).to_vec()),
            ]
        }
    }
}

fn command(verb: &str, options: &PromoteOptions<'_>) -> Vec<String> {
    let mut words = vec!["assize".to_owned(), verb.to_owned()];
    if verb == "collect" && options.task_name != assize_domain::builtin::DEFAULT {
        words.extend(["--task".to_owned(), options.task_name.to_owned()]);
    }
    words.extend(["--experiment".to_owned(), options.experiment.to_owned()]);
    words
}

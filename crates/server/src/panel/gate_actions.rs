//! What a page offers for each failed check of the gate.

use assize_domain::judge::Tier;
use assize_domain::options::{Kind, OPTIONS};
use assize_domain::promotion::{Check, GateReport, Outcome};
use assize_domain::scenario::Split;
use assize_pipeline::promote::{Assessment, Step};
use assize_report::shell::command_line;

use super::experiment::{path, runs_of, segment};
use super::fields::query;
use super::gate_checks::CheckLine;

/// One check, with what helps where it failed.
pub(crate) struct GateCheck {
    pub line: CheckLine,
    pub actions: Vec<Action>,
}

/// A button under a failed check.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Action {
    Link {
        label: String,
        href: String,
    },
    /// Judges both pairs again, after a confirmation.
    Reopen {
        tier: Tier,
        split: Split,
    },
}

/// The checks, failed ones first, each with its actions.
pub(crate) fn checks(assessment: &Assessment, experiment: &str) -> Vec<GateCheck> {
    let report = &assessment.report;
    let mut checks: Vec<&Check> = report.checks.iter().collect();
    checks.sort_by_key(|it| match it.outcome {
        Outcome::Failed => 0,
        Outcome::Sealed => 1,
        Outcome::Tentative => 2,
        Outcome::Passed => 3,
        Outcome::NotApplicable => 4,
    });
    let with_actions = |check: &Check| GateCheck {
        line: CheckLine::from(check),
        actions: if check.outcome == Outcome::Failed {
            actions(check, report, &assessment.next, experiment)
        } else {
            Vec::new()
        },
    };
    checks.into_iter().map(with_actions).collect()
}

/// The next steps: those that are commands, and those that are words.
pub(crate) fn steps(assessment: &Assessment) -> (Vec<String>, Vec<String>) {
    let (mut commands, mut advice) = (Vec::new(), Vec::new());
    for step in &assessment.next {
        match step {
            Step::Command { verb, flags } => commands.push(command_line(verb, flags)),
            Step::Words(words) => advice.push(words.to_string()),
        }
    }
    (commands, advice)
}

fn actions(check: &Check, report: &GateReport, steps: &[Step], experiment: &str) -> Vec<Action> {
    let link = |label: &str, href: String| Action::Link {
        label: label.to_owned(),
        href,
    };
    let judge = |tier: Tier| match tier {
        Tier::Expert => link(
            "Judge the pending cases",
            format!("/desk/{}", segment(experiment)),
        ),
        Tier::Auto => link(
            "Run an automatic judge…",
            format!("/judges/{}/auto", segment(experiment)),
        ),
    };
    let outputs = || {
        let pair = &report.candidate;
        let split = Split::Selection.as_str();
        link(
            "Read the candidate’s outputs",
            runs_of(experiment, split, &pair.model, &pair.prompt),
        )
    };
    let judges = || {
        link(
            "Show the judges",
            format!("/judges/{}", segment(experiment)),
        )
    };
    let tier = report.tier;
    let first = check.name.split('.').next().unwrap_or_default();
    match (check.name.as_str(), first) {
        ("missing_cells", _) => {
            let mut all = vec![judge(tier)];
            all.extend(collections(steps, Split::Selection));
            all
        }
        ("family", _) => vec![judge(tier)],
        ("rank.auto", _) if check.figure.is_none() => vec![judge(Tier::Auto)],
        ("rank.expert", _) if check.figure.is_none() => vec![judge(Tier::Expert)],
        ("double_scored", _) => vec![judge(Tier::Expert), judge(Tier::Auto)],
        ("judged_alike", _) => vec![Action::Reopen {
            tier,
            split: Split::Selection,
        }],
        ("confirmation.judged_alike", _) => vec![Action::Reopen {
            tier,
            split: Split::Confirmation,
        }],
        ("confirmation", _) if check.figure.is_none() => {
            let mut all: Vec<Action> = collections(steps, Split::Confirmation).collect();
            all.push(judge(tier));
            all
        }
        ("judge_bias" | "agreement", _) => vec![judges()],
        ("failed_candidates" | "worst_scenario" | "worst_segment", _) | (_, "flag") => {
            vec![outputs()]
        }
        _ => vec![link("Show the board", path(experiment))],
    }
}

/// Links to New run, filled in as the steps would collect.
fn collections(steps: &[Step], split: Split) -> impl Iterator<Item = Action> {
    let found = steps.iter().filter_map(move |step| match step {
        Step::Command {
            verb: "collect",
            flags,
        } => {
            let is_of =
                |(name, value): &(String, String)| name == "--split" && *value == split.to_string();
            flags.iter().any(is_of).then(|| prefilled(flags))
        }
        _ => None,
    });
    found.collect::<Vec<_>>().into_iter()
}

fn prefilled(flags: &[(String, String)]) -> Action {
    let mut fields: Vec<(&str, &str)> = Vec::new();
    let mut what = Vec::new();
    for (flag, value) in flags {
        match flag.trim_start_matches("--") {
            "models" => {
                fields.push(("other_models", value));
                what.push(value.as_str());
            }
            "prompts" => {
                fields.push(("prompt", value));
                what.push(value.as_str());
            }
            "split" => fields.push(("split", value)),
            "task" | "sweep" => {}
            "experiment" => fields.push(("experiment", value)),
            other => {
                if let Some(option) = OPTIONS.iter().find(|it| it.flag == other) {
                    let is_on = matches!(option.kind, Kind::Switch);
                    fields.push((option.key, if is_on { "true" } else { value }));
                }
            }
        }
    }
    let fields: Vec<_> = fields
        .into_iter()
        .map(|(key, it)| (key, Some(it)))
        .collect();
    Action::Link {
        label: format!("Collect {}…", what.join(" × ")),
        href: format!("/run/new{}", query(&fields)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_collection_becomes_a_filled_form() {
        let flags = [
            ("--experiment", "e"),
            ("--models", "m:1"),
            ("--prompts", "p"),
            ("--split", "confirmation"),
            ("--temperature", "0.7"),
        ];
        let flags = flags.map(|(name, value)| (name.to_owned(), value.to_owned()));
        let step = Step::Command {
            verb: "collect",
            flags: flags.into(),
        };
        let steps = [step];
        assert_eq!(collections(&steps, Split::Selection).count(), 0);
        let found: Vec<Action> = collections(&steps, Split::Confirmation).collect();
        let href =
            "/run/new?experiment=e&other_models=m%3A1&prompt=p&split=confirmation&temperature=0.7";
        assert_eq!(
            found,
            [Action::Link {
                label: "Collect m:1 × p…".to_owned(),
                href: href.to_owned(),
            }]
        );
    }
}

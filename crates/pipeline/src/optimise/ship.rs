//! From the nominee to the champion: blind verdicts on the selection split, the sealed confirmation,
//! and the promotion gate.
//!
//! Nominee and incumbent are collected with the task's usual options in the loop's own experiment, where
//! they wait in the queue like all runs. Nothing here decides: [`crate::promote`] does, and only it
//! moves `champion`.

use std::collections::BTreeSet;

use assize_domain::judge::Tier;
use assize_domain::leaderboard::Pair;
use assize_domain::promotion::{Check, GateReport, Outcome, Promotion, Relation};
use assize_domain::prompt::short_hash;
use assize_domain::scenario::Split;
use assize_domain::sweep::{Settings, SettingsWords, settings_words};
use assize_domain::task::Task;
use assize_optimise::Tree;

use super::LoopContext;
use super::cells::{Part, Settled, TrackedCell, check_computed};
use super::looks::{judge_looks, nominees};
use crate::compare::SEED;
use crate::promote::{self, Assessment, PromoteOptions, Signature, Step};
use crate::{PipelineError, Result, count};

/// Nominee and incumbent of a loop.
#[derive(Debug, Clone)]
pub(super) struct Finalists {
    pub nominee: Pair,
    pub nominee_sha256: String,
    pub incumbent: Pair,
}

/// How far the judges are with the finalists' cells of one split.
#[derive(Debug)]
pub(super) struct Judging {
    pub cells: Vec<TrackedCell>,
    /// Tiers with cells that they have not judged, and how many.
    pub missing: Vec<(Tier, usize)>,
}

/// What the gate said.
#[derive(Debug)]
pub(super) enum Verdict {
    /// Every check but the confirmation holds.
    Clear(GateReport),
    Passed(Box<Assessment>),
    /// The two were not judged alike, which the judges can repair by these steps.
    NotAlike(Vec<Step>),
    /// The gate said no, or the comparison has lost its meaning.
    No(String, Option<GateReport>),
}

impl Finalists {
    pub fn of(tree: &Tree) -> Result<Self> {
        let nominated = tree.nominee.as_ref();
        let nominated = nominated
            .ok_or_else(|| PipelineError::Internal("the loop has no nominee".to_owned()))?;
        let node = tree.node(&nominated.child)?;
        Ok(Self {
            nominee: nominated.pair.clone(),
            nominee_sha256: node.version.sha256.clone(),
            incumbent: tree.incumbent.clone(),
        })
    }

    fn pairs(&self) -> BTreeSet<(String, String)> {
        let pairs = [&self.nominee, &self.incumbent].into_iter();
        pairs
            .map(|it| (it.model.clone(), it.prompt.clone()))
            .collect()
    }
}

impl LoopContext<'_> {
    /// The finalists' cells of a split.
    fn final_part(&self, task: &Task, finalists: &Finalists, split: Split) -> Part {
        Part {
            experiment: self.experiment.to_owned(),
            split,
            pairs: finalists.pairs(),
            scenarios: task.split(split).map(|it| it.id.clone()).collect(),
            candidates: self.values.n_tips,
            judge_kind: self.values.judge_kind.clone(),
        }
    }

    /// The finalists' recorded cells of a split.
    pub(super) fn final_cells(
        &self,
        task: &Task,
        finalists: &Finalists,
        split: Split,
    ) -> Result<Vec<TrackedCell>> {
        self.read(task, &self.final_part(task, finalists, split))
    }

    /// Refuses a further nominee where too many have seen the confirmation split, and warns before.
    pub(super) fn check_looks(&self, task: &Task) -> Result<()> {
        match judge_looks(nominees(self.store, task)?.len()) {
            Ok(None) => Ok(()),
            Ok(Some(warning)) => {
                (self.tell)(&warning);
                Ok(())
            }
            Err(problem) => Err(PipelineError::Refused(problem)),
        }
    }

    /// Collects both finalists on a split, so that they wait in the queue beside each other. Returns what
    /// generating cost.
    pub(super) fn submit(&self, task: &Task, finalists: &Finalists, split: Split) -> Result<f64> {
        let part = self.final_part(task, finalists, split);
        self.collect(task, &part)?;
        let cells = self.read(task, &part)?;
        let failed = cells.iter().filter(|it| it.is_failed()).count();
        if failed > 0 {
            return Err(PipelineError::CellsFailed(format!(
                "{} of nominee and incumbent on the {split} split failed, and the gate needs all: see why \
                 with `assize runs list --experiment {} --split {split}`, and run the step again",
                count(failed, "cell"),
                self.experiment
            )));
        }
        Ok(cells.iter().map(TrackedCell::generation_usd).sum())
    }

    /// What the judges have done; the automatic judge does its part now where the gate requires it.
    /// Scenarios that were added to the confirmation split since are collected first.
    pub(super) fn judging(
        &self,
        task: &Task,
        finalists: &Finalists,
        split: Split,
        money_left: Option<f64>,
    ) -> Result<Judging> {
        let part = self.final_part(task, finalists, split);
        let tiers = self.required(split);
        if self.recorded(task, &part)?.len() < part.len() {
            self.submit(task, finalists, split)?;
        }
        let mut cells = self.read(task, &part)?;
        check_computed(self.experiment, &cells)?;
        let lacks = |cells: &[TrackedCell], tier| {
            let open = cells.iter().filter(|it| !it.is_judged(tier));
            open.count()
        };
        if tiers.contains(&Tier::Auto) && lacks(&cells, Tier::Auto) > 0 {
            let spent: f64 = cells.iter().map(TrackedCell::judging_usd).sum();
            let money_left = money_left.map(|it| (it - spent).max(0.0));
            let settled = self.judge(self.experiment, money_left)?;
            cells = self.read(task, &part)?;
            self.check_automatic(settled, lacks(&cells, Tier::Auto), split)?;
        }
        let missing = tiers.into_iter().map(|tier| (tier, lacks(&cells, tier)));
        Ok(Judging {
            missing: missing.filter(|(_, count)| *count > 0).collect(),
            cells,
        })
    }

    /// Without the automatic verdicts that the gate requires the loop cannot go on, and no expert can
    /// help.
    fn check_automatic(&self, settled: Settled, open: usize, split: Split) -> Result<()> {
        if settled == Settled::OutOfMoney {
            return Err(PipelineError::Refused(format!(
                "the money for this loop does not suffice for the automatic verdicts on the {split} split that the \
                 gate requires: stop it, and start another with a higher --max-cost"
            )));
        }
        if open > 0 {
            return Err(PipelineError::CellsFailed(format!(
                "the automatic judge {} could not score {} of the {split} split, and the gate requires its verdicts: see \
                 why above, then run the step again, or have them scored by another model with `assize judge auto \
                 --experiment {} --judge MODEL`",
                self.settings.judge,
                count(open, "cell"),
                self.experiment
            )));
        }
        Ok(())
    }

    /// The tiers that must have judged a split before the gate can decide.
    fn required(&self, split: Split) -> Vec<Tier> {
        if split == Split::Selection {
            self.thresholds.require.clone()
        } else {
            vec![self.thresholds.deciding_tier()]
        }
    }

    /// The promotion of this loop's nominee, where it is the champion already: the process was killed
    /// after it had promoted and before it recorded that.
    pub(super) fn promoted(&self, task: &Task, finalists: &Finalists) -> Result<Option<Promotion>> {
        let champion = self.store.champion_get(&task.name)?;
        Ok(champion.filter(|it| {
            it.experiment == self.experiment
                && it.champion.model == finalists.nominee.model
                && it.champion.prompt_sha256 == finalists.nominee_sha256
        }))
    }

    /// Runs the gate on the finalists. The ledger records the attempt.
    pub(super) fn gate(&self, task: &Task, finalists: &Finalists) -> Result<Verdict> {
        if let Some(problem) = self.champion_changed(task, finalists)? {
            return Ok(Verdict::No(problem, None));
        }
        let assessment = self.assess(task, finalists)?;
        let report = assessment.report.clone();
        if report.passed {
            return Ok(Verdict::Passed(Box::new(assessment)));
        }
        let failed = |confirming: bool| {
            let checks = report.checks.iter();
            checks.filter(move |it| {
                let is_failed = matches!(it.outcome, Outcome::Failed | Outcome::Sealed);
                is_failed && is_confirming(it) == confirming
            })
        };
        let is_apart = |it: &Check| {
            it.outcome == Outcome::Failed
                && matches!(
                    it.name.as_str(),
                    "judged_alike" | "confirmation.judged_alike"
                )
        };
        if report.checks.iter().any(is_apart) {
            return Ok(Verdict::NotAlike(assessment.next));
        }
        let others: Vec<&Check> = failed(false).collect();
        if !others.is_empty() {
            return Ok(Verdict::No(words(&others), Some(report.clone())));
        }
        // Without figures the split is not collected and judged yet.
        let has_seen = report
            .checks
            .iter()
            .any(|it| is_confirming(it) && it.figure.is_some());
        if has_seen {
            let confirming: Vec<&Check> = failed(true).collect();
            return Ok(Verdict::No(words(&confirming), Some(report.clone())));
        }
        Ok(Verdict::Clear(report))
    }

    fn assess(&self, task: &Task, finalists: &Finalists) -> Result<Assessment> {
        let author = (self.author)();
        let incumbent_sha256 = task
            .prompt(&finalists.incumbent.prompt)
            .map_or("", |it| it.sha256.as_str());
        let scores =
            crate::compare::read::read(self.store, self.experiment, Split::Selection, None)?;
        // As boards write pairs where settings were swept in the experiment.
        let words = settings_words(self.values, &Settings::default());
        let settings = SettingsWords::parse(&words).of(&scores.swept);
        let id = |pair: &Pair, hash: &str| {
            format!(
                "{}/{}",
                pair.model,
                settings.label(&format!("{}{hash}", pair.prompt))
            )
        };
        let both = [&finalists.nominee, &finalists.incumbent];
        let plain = both.map(|pair| id(pair, ""));
        // As boards write names that have had several contents in the experiment.
        let hashed = [
            id(
                both[0],
                &format!("@{}", short_hash(&finalists.nominee_sha256)),
            ),
            id(both[1], &format!("@{}", short_hash(incumbent_sha256))),
        ];
        let name = |place: usize| {
            let is_there = scores.find_pair(&plain[place]).is_some();
            if is_there {
                plain[place].as_str()
            } else {
                hashed[place].as_str()
            }
        };
        let options = PromoteOptions {
            experiment: self.experiment,
            task,
            task_name: self.task_place,
            candidate: Some(name(0)),
            incumbent: Some(name(1)),
            thresholds: self.thresholds,
            seed: SEED,
            author: Some(&author),
            dry_run: false,
        };
        promote::assess(self.store, &options)
    }

    /// Why the comparison has lost its meaning: another pair became the champion meanwhile.
    fn champion_changed(&self, task: &Task, finalists: &Finalists) -> Result<Option<String>> {
        let Some(champion) = self.store.champion_get(&task.name)? else {
            return Ok(None);
        };
        let prompt = task.prompt(&finalists.incumbent.prompt);
        let is_incumbent = champion.champion.model == finalists.incumbent.model
            && prompt.is_some_and(|it| it.sha256 == champion.champion.prompt_sha256);
        Ok((!is_incumbent).then(|| {
            format!(
                "the champion of {} is {} now (entry {}), and this loop was compared with {}: start another \
                 loop",
                task.name,
                champion.champion.pair(),
                champion.number,
                finalists.incumbent
            )
        }))
    }

    /// Makes the nominee the champion.
    pub(super) fn promote(&self, assessment: &Assessment, note: &str) -> Result<Promotion> {
        let signature = Signature {
            by: (self.author)().by,
            at: (self.now)().rfc3339,
            note: Some(note.chars().take(promote::LONGEST_NOTE).collect()),
        };
        let promotion = promote::promote(self.store, assessment, signature)?;
        promotion.ok_or_else(|| PipelineError::Internal("the gate had passed".to_owned()))
    }
}

/// Whether a check uses scores of the confirmation split.
fn is_confirming(check: &Check) -> bool {
    check.name == "confirmation" || check.name.starts_with("confirmation.")
}

/// The checks that failed, with their figures and thresholds.
fn words(checks: &[&Check]) -> String {
    let failed: Vec<String> = checks
        .iter()
        .map(|it| {
            let relation = match it.relation {
                Relation::AtMost => "at most",
                Relation::AtLeast => "at least",
                Relation::Above => "above",
            };
            let figure = it.figure.map_or_else(
                || "has no figure".to_owned(),
                |figure| format!("is {figure:.3}"),
            );
            format!(
                "{} {figure} and must be {relation} {:.3}",
                it.name, it.threshold
            )
        })
        .collect();
    format!("the gate says no: {}", failed.join("; "))
}

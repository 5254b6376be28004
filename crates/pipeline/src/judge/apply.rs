//! Apply: a filled judge file becomes verdicts, all of it or nothing.
//!
//! The file is read twice, case by case: once to check all of it, and once more while
//! the store takes its verdicts in one transaction. So a file of any size needs little
//! memory, and nothing is written before all of it is known to be valid. What was handed
//! out is read from the store in the store's order and held as hashes.

use std::collections::HashMap;

use assize_domain::case::FileProblem;
use assize_domain::judge::Judge;
use assize_domain::run::tag;
use assize_domain::sitting::{ANCHORS, Sitting, SittingState};
use assize_domain::task::TaskScenarios;
use assize_domain::verdict::{Verdict, VerdictFile};
use assize_store::{Committed, FileSink, Runs, Sittings, StoreError, Tracking};

use super::drift::{self, Drift};
use super::file::check::{Checker, FilledCase, FilledHead, Scored};
use super::file::{Depth, Source, head_read, head_seen};
use super::rubric_of;
use crate::experiment_task::{self, Lookup};
use crate::{PipelineError, Result};
use known::known_cases;

mod known;

/// How to read the file.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ApplyOptions {
    /// What messages call the file.
    pub file: String,
    pub judge_kind: Option<String>,
    pub judged_by: Option<String>,
    /// The current user, where no judge is named.
    pub user: Option<String>,
    pub partial: bool,
    /// The task that the user named, which must be the experiment's.
    pub task: Option<String>,
}

/// What applying a file did.
#[derive(Debug, Clone, PartialEq, serde::Serialize)]
pub struct Applied {
    pub experiment: String,
    pub sitting: String,
    pub judge: Judge,
    /// Neither the file nor a flag says who judged, so it is the kind that the runs were pending for.
    pub judge_assumed: bool,
    pub tier: assize_domain::judge::Tier,
    pub cases: usize,
    /// Cases that the file leaves unscored.
    pub unscored: usize,
    /// JSON pointers of scores that are missing in cases which have others.
    pub half_scored: Vec<String>,
    /// Cases whose run was deleted after the export.
    pub dropped: usize,
    /// Open while cases are unscored; quarantined where the judge has drifted.
    pub state: SittingState,
    /// Whether anything is other than before: verdicts, or the sitting's state.
    pub changed: bool,
    /// What the anchors say, where enough of them were scored.
    pub drift: Option<Drift>,
    #[serde(flatten)]
    pub committed: Committed,
}

/// Checks the whole file, then writes its verdicts.
pub fn apply(
    store: &dyn Tracking,
    source: Source<'_>,
    options: &ApplyOptions,
    now: &str,
) -> Result<Applied> {
    let wrong = |problem: FileProblem| PipelineError::JudgeFile {
        file: options.file.clone(),
        problems: vec![problem],
    };
    let at = |pointer: &str, message: String| FileProblem {
        pointer: pointer.to_owned(),
        message,
    };
    let head = head_read(source)?.map_err(wrong)?;
    let id = head_seen(&head).map_err(wrong)?;
    let Some(record) = store.sitting_record_get(&id)? else {
        let message = format!(
            "'{id}' is not known to {}: is this the right --tracking-uri?",
            store.uri()
        );
        return Err(wrong(at("/sitting", message)));
    };
    let (sitting, state) = (record.sitting, record.state);
    if let Some(task) = &options.task {
        let lookup = Lookup {
            given: Some(task),
            ..Lookup::default()
        };
        experiment_task::find::<TaskScenarios>(store, &sitting.experiment, lookup)?;
    }
    fits(&head, &sitting, state).map_err(wrong)?;
    let first_run = first_of(store, &sitting).map_err(wrong)?;
    let rubric = rubric_of(store, &first_run, &sitting.rubric)?;
    let known = known_cases(store, &sitting, &rubric)?;
    let mut checker = Checker::new(&rubric, known, options.partial);
    checker.head(&head);
    let scored = check(source, &mut checker)?.map_err(wrong)?;
    if !checker.problems.is_empty() {
        return Err(PipelineError::JudgeFile {
            file: options.file.clone(),
            problems: checker.problems,
        });
    }
    let (judge, judge_assumed) = name_judge(store, options, &checker, &first_run)?;
    let mut applied = Applied {
        experiment: sitting.experiment.clone(),
        sitting: sitting.id.clone(),
        tier: judge.tier(),
        judge: judge.clone(),
        judge_assumed,
        cases: scored,
        unscored: checker.unscored,
        half_scored: checker.half_scored.clone(),
        dropped: checker.dropped,
        state: SittingState::Open,
        changed: false,
        drift: None,
        committed: Committed::default(),
    };
    let bundle = Bundle {
        sitting: &sitting,
        judge,
        now,
        open: HashMap::new(),
    };
    let complete = checker.unscored == 0;
    applied.committed = commit(store, source, &mut checker, bundle)?;
    // Applying the same file again does not change the sitting's state.
    if state != SittingState::Open && applied.committed.runs_written == 0 {
        applied.state = state;
        return Ok(applied);
    }
    let ended = drift::close(store, &sitting, &applied.judge, &rubric, now, complete)?;
    (applied.state, applied.drift) = (ended.state, ended.drift);
    applied.changed = applied.committed.runs_written > 0 || applied.state != state;
    Ok(applied)
}

/// Checks all cases, and returns how many carry scores.
fn check(
    source: Source<'_>,
    checker: &mut Checker<'_>,
) -> Result<std::result::Result<usize, FileProblem>> {
    let mut scored = 0;
    let read = source.cases_each(Depth::Whole, &mut |position, case| {
        scored += usize::from(checker.case(position, case).is_some());
        true
    })?;
    Ok(read.map(|found| {
        if found {
            checker.finish();
        } else {
            checker.problems.push(FileProblem {
                pointer: "/cases".to_owned(),
                message: "is missing: it must be the list of cases".to_owned(),
            });
        }
        scored
    }))
}

/// Whether the file is one that its sitting still takes.
fn fits(
    head: &FilledHead,
    sitting: &Sitting,
    state: SittingState,
) -> std::result::Result<(), FileProblem> {
    let problem = |pointer: &str, message: String| {
        Err(FileProblem {
            pointer: pointer.to_owned(),
            message,
        })
    };
    let experiment = &head.experiment;
    if !experiment.is_null() && experiment.as_str() != Some(&sitting.experiment) {
        let message = format!(
            "was edited: the cases of this sitting belong to '{}'",
            sitting.experiment
        );
        return problem("/experiment", message);
    }
    if state == SittingState::Quarantined {
        let message = format!(
            "'{id}' is quarantined, because its judge had drifted: export the cases again and judge \
             them anew, or let its verdicts count with assize judge release {id}",
            id = sitting.id
        );
        return problem("/sitting", message);
    }
    Ok(())
}

/// The first run of the sitting that is still there, under the rubric of the sitting.
fn first_of(store: &dyn Runs, sitting: &Sitting) -> std::result::Result<String, FileProblem> {
    let found = sitting
        .runs
        .iter()
        .find_map(|(id, _)| store.run_get(id).ok());
    let problem = |pointer: &str, message: String| FileProblem {
        pointer: pointer.to_owned(),
        message,
    };
    let Some(first) = found else {
        let message = format!(
            "'{}' handed out no case whose run is still there",
            sitting.id
        );
        return Err(problem("/sitting", message));
    };
    let current = first.tags.iter().find(|(key, _)| key == tag::RUBRIC_SHA256);
    if current.is_some_and(|(_, sha256)| *sha256 != sitting.rubric.sha256) {
        let message = "is not the rubric of these runs any more, because they were reopened: \
                       export again";
        return Err(problem("/rubric/sha256", message.to_owned()));
    }
    Ok(first.run_id)
}

/// Reads the file once more and commits each run's verdicts as soon as they are complete.
fn commit(
    store: &dyn Sittings,
    source: Source<'_>,
    checker: &mut Checker<'_>,
    mut bundle: Bundle<'_>,
) -> Result<Committed> {
    checker.start_again();
    let rubric = checker.rubric();
    let committed = store.sitting_commit_each(rubric, &mut |take| {
        let mut refused = false;
        let mut put = |position: usize, case: &FilledCase| match checker.case(position, case) {
            Some(scored) => {
                refused = !bundle.put(scored, take);
                !refused
            }
            None => true,
        };
        let read = source.cases_each(Depth::Scores, &mut put);
        if refused {
            // The store says itself what is wrong.
            return Ok(());
        }
        if !matches!(read, Ok(Ok(true))) || !checker.problems.is_empty() {
            let message = "the judge file changed while it was read: nothing was written, so apply \
                           it again when no program is editing it";
            return Err(StoreError::Conflict(message.to_owned()));
        }
        bundle.put_rest(take);
        Ok(())
    })?;
    Ok(committed)
}

/// Gathers verdicts by run.
struct Bundle<'a> {
    sitting: &'a Sitting,
    judge: Judge,
    now: &'a str,
    /// Runs of which some cases have come.
    open: HashMap<u32, Vec<Verdict>>,
}

impl Bundle<'_> {
    fn put(&mut self, scored: Scored, take: FileSink<'_>) -> bool {
        let handed_out = self.sitting.runs.get(scored.run as usize);
        let anchors = self.sitting.anchors.cases.len();
        let expected = handed_out.map_or(anchors, |(_, indexes)| indexes.len());
        let verdicts = self.open.entry(scored.run).or_default();
        verdicts.push(scored.verdict);
        if verdicts.len() < expected {
            return true;
        }
        let verdicts = self.open.remove(&scored.run).unwrap_or_default();
        self.hand_over(scored.run, verdicts, take)
    }

    fn put_rest(&mut self, take: FileSink<'_>) {
        let mut rest: Vec<_> = std::mem::take(&mut self.open).into_iter().collect();
        rest.sort_by_key(|(run, _)| *run);
        for (run, verdicts) in rest {
            if !self.hand_over(run, verdicts, take) {
                return;
            }
        }
    }

    fn hand_over(&self, run: u32, mut verdicts: Vec<Verdict>, take: FileSink<'_>) -> bool {
        // The number after the last run stands for the anchors.
        let run = self.sitting.runs.get(run as usize);
        let run_id = run.map_or(ANCHORS, |(run_id, _)| run_id);
        verdicts.sort_by_key(|verdict| verdict.candidate);
        let file = VerdictFile {
            // The judge who filled in the file decides the tier, whatever it was exported for.
            tier: self.judge.tier(),
            ..self.sitting.verdict_file(&self.judge, self.now, verdicts)
        };
        take(run_id, file)
    }
}

/// From the flag, else the file, else the kind that the runs were pending for; `true` for the last.
fn name_judge(
    store: &dyn Runs,
    options: &ApplyOptions,
    checker: &Checker<'_>,
    run_id: &str,
) -> Result<(Judge, bool)> {
    let flag = options.judge_kind.as_deref().map(str::to_lowercase);
    let named = flag.or_else(|| checker.judge_kind.clone());
    let assumed = named.is_none();
    let kind = if let Some(kind) = named {
        kind
    } else {
        let run = store.run_get(run_id)?;
        let desk = run.tags.into_iter().find(|(key, _)| key == tag::JUDGE_KIND);
        desk.map_or_else(|| "human".to_owned(), |(_, kind)| kind)
    };
    let name = options
        .judged_by
        .clone()
        .or_else(|| checker.judge_name.clone())
        .or_else(|| options.user.clone());
    let judge = Judge {
        name: name.unwrap_or_else(|| kind.clone()),
        kind,
        version: checker.judge_version.clone(),
    };
    Ok((judge, assumed))
}

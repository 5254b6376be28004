//! Apply: a filled judge file becomes verdicts, all of it or nothing.
//!
//! The file is gone over twice, case by case: once to check all of it, and once more while
//! the store takes its verdicts in one transaction. So a file of any size needs little
//! memory, and nothing is written before everything is known to be sound. What was handed
//! out is read from the store in the store's order and held as hashes.

use std::collections::HashMap;
use std::ops::Range;

use assize_domain::candidate::Candidate;
use assize_domain::judge::Judge;
use assize_domain::judge_file::FileProblem;
use assize_domain::judge_file::check::{Checker, KnownCases, Scored};
use assize_domain::rubric::Rubric;
use assize_domain::run::{artifact, tag};
use assize_domain::sitting::{ANCHORS, Sitting, SittingState, case_id};
use assize_domain::verdict::{Verdict, VerdictFile};
use assize_store::{Committed, StoreError, Take, Tracking};
use serde_json::{Map, Value};

use super::drift::{self, Drift};
use super::{artifact_parse, rubric_of};
use crate::{PipelineError, Result};
pub use file::Source;
use file::{head_read, head_seen};

mod file;

/// How to read the file.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ApplyOptions {
    /// What messages call the file.
    pub file: String,
    pub judge_kind: Option<String>,
    pub judged_by: Option<String>,
    /// The person at the keyboard, where nobody else is named.
    pub user: Option<String>,
    pub partial: bool,
}

/// What applying a file did.
#[derive(Debug, Clone, PartialEq, serde::Serialize)]
pub struct Applied {
    pub experiment: String,
    pub sitting: String,
    pub judge: Judge,
    /// Neither the file nor a flag says who judged, so it is whose desk the runs waited on.
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
    let Some(sitting) = store.sitting_get(&id)? else {
        let message = format!(
            "'{id}' is not known to {}: is this the right --tracking-uri?",
            store.uri()
        );
        return Err(wrong(at("/sitting", message)));
    };
    let first_run = first_of(store, &sitting).map_err(wrong)?;
    let rubric = rubric_of(store, &first_run, &sitting.rubric)?;
    let mut checker = Checker::new(&rubric, known_cases(store, &sitting)?, options.partial);
    checker.head(&head);
    let mut scored = 0;
    let read = source.cases_each(&mut |position, case| {
        scored += usize::from(checker.case(position, case).is_some());
        true
    })?;
    match read {
        Err(problem) => return Err(wrong(problem)),
        Ok(false) => checker.problems.push(at(
            "/cases",
            "is missing: it must be the list of cases".to_owned(),
        )),
        Ok(true) => checker.finish(),
    }
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
    let ended = close(store, &sitting, &applied, &rubric, now, complete)?;
    (applied.state, applied.drift) = (ended.state, ended.drift);
    Ok(applied)
}

/// Ends the sitting. Where the same file comes again, what was decided about it stands.
fn close(
    store: &dyn Tracking,
    sitting: &Sitting,
    applied: &Applied,
    rubric: &Rubric,
    now: &str,
    complete: bool,
) -> Result<drift::Ended> {
    let record = store.sitting_record(&sitting.id)?;
    let state = record.map_or(SittingState::Open, |it| it.state);
    if state != SittingState::Open && applied.committed.runs_written == 0 {
        return Ok(drift::Ended { state, drift: None });
    }
    drift::close(store, sitting, &applied.judge, rubric, now, complete)
}

/// The first run of the sitting that is still there, under the rubric of the sitting.
fn first_of(store: &dyn Tracking, sitting: &Sitting) -> std::result::Result<String, FileProblem> {
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

/// Goes over the file once more and hands each run's verdicts over as soon as they are all there.
fn commit(
    store: &dyn Tracking,
    source: Source<'_>,
    checker: &mut Checker<'_>,
    mut bundle: Bundle<'_>,
) -> Result<Committed> {
    checker.start_again();
    let rubric = checker.rubric();
    let committed = store.sitting_commit_each(rubric, &mut |take| {
        let read = source.cases_each(&mut |position, case| match checker.case(position, case) {
            Some(scored) => bundle.put(scored, take),
            None => true,
        });
        if !matches!(read, Ok(Ok(true))) || !checker.problems.is_empty() {
            let message = "the judge file changed while it was read: nothing was written, so apply \
                           it again once nobody edits it";
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
    fn put(&mut self, scored: Scored, take: Take<'_>) -> bool {
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

    fn put_rest(&mut self, take: Take<'_>) {
        let mut rest: Vec<_> = std::mem::take(&mut self.open).into_iter().collect();
        rest.sort_by_key(|(run, _)| *run);
        for (run, verdicts) in rest {
            if !self.hand_over(run, verdicts, take) {
                return;
            }
        }
    }

    fn hand_over(&self, run: u32, mut verdicts: Vec<Verdict>, take: Take<'_>) -> bool {
        // Behind the last run stand the anchors.
        let run = self.sitting.runs.get(run as usize);
        let run_id = run.map_or(ANCHORS, |(run_id, _)| run_id);
        verdicts.sort_by_key(|verdict| verdict.candidate);
        let file = VerdictFile {
            sitting: self.sitting.id.clone(),
            tier: self.judge.tier(),
            judge: self.judge.clone(),
            rubric: self.sitting.rubric.clone(),
            judged_at: self.now.to_owned(),
            verdicts,
            usage: None,
        };
        take(run_id, file)
    }
}

/// Everything that the sitting handed out, and the cases whose run was deleted since. Two
/// threads share the work.
fn known_cases(store: &dyn Tracking, sitting: &Sitting) -> Result<KnownCases> {
    let half = sitting.runs.len() / 2;
    let (first, second) = std::thread::scope(|scope| {
        let first = scope.spawn(|| cases_of(store, sitting, 0..half));
        let second = cases_of(store, sitting, half..sitting.runs.len());
        (first.join(), second)
    });
    let mut known = second?;
    known.merge(first.map_err(|_| {
        PipelineError::Invalid("reading the cases stopped halfway: apply again".to_owned())
    })??);
    let behind = u32::try_from(sitting.runs.len()).unwrap_or(u32::MAX);
    for (place, anchor) in (0..).zip(&sitting.anchors.cases) {
        let id = sitting.case_id(ANCHORS, place);
        known.add(&id, behind, place, &anchor.candidate, &anchor.context);
    }
    Ok(known)
}

/// The cases of these of the sitting's runs.
fn cases_of(store: &dyn Tracking, sitting: &Sitting, runs: Range<usize>) -> Result<KnownCases> {
    let mut known = KnownCases::default();
    for number in runs {
        let (run_id, handed_out) = &sitting.runs[number];
        let number = u32::try_from(number).unwrap_or(u32::MAX);
        let id_of = |index: u32| case_id(&sitting.salt, run_id, index);
        let text = match store.artifact_get(run_id, artifact::CANDIDATES) {
            Ok(Some(text)) => text,
            Ok(None) | Err(StoreError::NoRun { .. }) => {
                for index in handed_out {
                    known.add_gone(&id_of(*index));
                }
                continue;
            }
            Err(error) => return Err(error.into()),
        };
        let context = store.artifact_get(run_id, artifact::CONTEXT)?;
        let context: Value = match &context {
            Some(text) => artifact_parse(artifact::CONTEXT, run_id, text)?,
            None => Value::Object(Map::new()),
        };
        let candidates: Vec<Candidate> = artifact_parse(artifact::CANDIDATES, run_id, &text)?;
        for candidate in candidates
            .iter()
            .filter(|it| handed_out.contains(&it.index))
        {
            if let Some(text) = &candidate.text {
                let index = candidate.index;
                known.add(&id_of(index), number, index, text, &context);
            }
        }
    }
    Ok(known)
}

/// Flag, then file, then whose desk the runs waited on; and whether it came to that.
fn name_judge(
    store: &dyn Tracking,
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
    };
    Ok((judge, assumed))
}

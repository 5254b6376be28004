use std::collections::BTreeMap;

use assize_domain::anchor::Anchors;
use assize_domain::judge::{Judge, Tier};
use assize_domain::run::{CellRecord, tag};
use assize_domain::sitting::Sitting;
use assize_domain::verdict::{RubricRef, Verdict};

use super::*;

const CANDIDATES: &str = r#"[{"index": 0, "text": "Walk."}]"#;

fn judge() -> Judge {
    Judge {
        kind: "human".to_owned(),
        name: "ann".to_owned(),
        version: None,
    }
}

fn rubric() -> RubricRef {
    RubricRef {
        id: "r".to_owned(),
        sha256: "ab".to_owned(),
    }
}

fn file(sitting: &str, composite: f64) -> VerdictFile {
    VerdictFile {
        sitting: sitting.to_owned(),
        tier: Tier::Expert,
        judge: judge(),
        rubric: rubric(),
        judged_at: "2026-05-01T10:00:00Z".to_owned(),
        verdicts: vec![Verdict {
            candidate: 0,
            scores: BTreeMap::new(),
            composite,
            rationale: None,
        }],
        usage: None,
        amends: None,
    }
}

fn existing(files: &[(&str, VerdictFile)], set_aside: &[&str]) -> ExistingRun {
    ExistingRun {
        run_id: "1f".to_owned(),
        status: RunStatus::Finished,
        set_aside: set_aside.iter().map(|&it| it.to_owned()).collect(),
        verdict_files: paths(files),
        reserved_paths: Vec::new(),
        candidates: Some(CANDIDATES.into()),
    }
}

fn paths(files: &[(&str, VerdictFile)]) -> Vec<(String, VerdictFile)> {
    let files = files.iter();
    files
        .map(|(path, file)| (path.to_string(), file.clone()))
        .collect()
}

fn incoming(files: &[(&str, VerdictFile)], set_aside: &str) -> ImportedRun {
    let mut artifacts = vec![(artifact::CANDIDATES.into(), CANDIDATES.into())];
    for (path, file) in files {
        let content = serde_json::to_string(file).unwrap();
        artifacts.push((path.to_string().into(), content.into()));
    }
    ImportedRun {
        origin: "2e".to_owned(),
        record: CellRecord {
            cell_key: "k".to_owned(),
            name: "n".to_owned(),
            status: RunStatus::Finished,
            start_time_ms: 1,
            end_time_ms: 2,
            params: Vec::new(),
            tags: vec![(tag::SET_ASIDE.into(), set_aside.into())],
            metrics: Vec::new(),
            artifacts,
        },
        end_time_ms: Some(2),
        points: Vec::new(),
        datasets: Vec::new(),
    }
}

fn plan(existing: &ExistingRun, incoming: &ImportedRun) -> RunPlan {
    RunPlan::new(Some(existing), incoming).unwrap()
}

#[track_caller]
fn check_merge(plan: &RunPlan, files: &[(&str, VerdictFile)], set_aside: &[&str]) {
    let expected = RunMerge {
        verdict_files: paths(files),
        set_aside: set_aside.iter().map(|&it| it.to_owned()).collect(),
    };
    assert_eq!(*plan, RunPlan::Merge(expected));
}

#[test]
fn a_run_that_is_not_there_is_created() {
    let plan = RunPlan::new(None, &incoming(&[], "")).unwrap();
    assert_eq!(plan, RunPlan::Create);
    assert_eq!(plan.change(), Change::Created);
}

#[test]
fn only_a_failed_cell_is_replaced_and_only_by_one_that_did_not_fail() {
    let mut here = existing(&[], &[]);
    let mut comes = incoming(&[], "");
    assert_eq!(plan(&here, &comes), RunPlan::Unchanged);
    here.status = RunStatus::Failed;
    assert_eq!(plan(&here, &comes), RunPlan::Replace);
    assert_eq!(plan(&here, &comes).change(), Change::Created);
    comes.record.status = RunStatus::Failed;
    assert_eq!(plan(&here, &comes), RunPlan::Unchanged);
    comes.record.status = RunStatus::Finished;
    comes.record.cell_key.clear();
    assert_eq!(plan(&here, &comes), RunPlan::Unchanged);
}

#[test]
fn verdict_files_that_are_there_are_not_added_again_whatever_their_paths() {
    let here = existing(&[("verdicts/a.json", file("a", 1.0))], &[]);
    let same = incoming(&[("verdicts/a.2.json", file("a", 1.0))], "");
    assert_eq!(plan(&here, &same), RunPlan::Unchanged);
}

#[test]
fn missing_verdict_files_are_added_under_paths_that_are_free() {
    let mut here = existing(&[("verdicts/a.json", file("a", 1.0))], &[]);
    let comes = incoming(
        &[
            ("verdicts/a.json", file("a", 2.0)),
            ("verdicts/b.json", file("b", 3.0)),
        ],
        "",
    );
    let merge = plan(&here, &comes);
    assert_eq!(merge.change(), Change::Merged);
    let a = ("verdicts/a.2.json", file("a", 2.0));
    check_merge(&merge, &[a, ("verdicts/b.json", file("b", 3.0))], &[]);
    here.reserved_paths = vec!["verdicts/a.2.json".to_owned()];
    let a = ("verdicts/a.3.json", file("a", 2.0));
    let b = ("verdicts/b.json", file("b", 3.0));
    check_merge(&plan(&here, &comes), &[a, b], &[]);
}

#[test]
fn a_sitting_that_either_side_sets_aside_is_set_aside() {
    let here = existing(&[], &["x"]);
    assert_eq!(plan(&here, &incoming(&[], "")), RunPlan::Unchanged);
    assert_eq!(plan(&here, &incoming(&[], "x")), RunPlan::Unchanged);
    check_merge(&plan(&here, &incoming(&[], "x y")), &[], &["x", "y"]);
}

#[test]
fn nothing_is_written_where_the_candidates_differ() {
    let comes = incoming(&[("verdicts/a.json", file("a", 1.0))], "");
    for other in [
        Some("[]".into()),
        Some("[{\"index\": 0, \"text\": \"Rest.\"}]".into()),
    ] {
        let mut here = existing(&[], &[]);
        here.candidates = other;
        assert_eq!(plan(&here, &comes), RunPlan::Differs);
        // Without verdicts there is nothing that could be wrong about them.
        assert_eq!(plan(&here, &incoming(&[], "")), RunPlan::Unchanged);
    }
    let mut here = existing(&[], &[]);
    here.candidates = None;
    assert_eq!(plan(&here, &comes).change(), Change::Differs);
}

#[test]
fn candidates_are_read_only_where_verdicts_depend_on_them() {
    let mut here = existing(&[], &[]);
    here.candidates = Some(b"not json".to_vec());
    assert_eq!(plan(&here, &incoming(&[], "")), RunPlan::Unchanged);
    let comes = incoming(&[("verdicts/a.json", file("a", 1.0))], "");
    let error = RunPlan::new(Some(&here), &comes).unwrap_err();
    let message = error.to_string();
    assert!(
        message.contains("candidates.json") && message.contains("1f"),
        "{message}"
    );
}

fn sitting(state: SittingState, anchor_files: &[VerdictFile]) -> SittingRecord {
    SittingRecord {
        sitting: Sitting {
            id: "s".to_owned(),
            experiment: "e".to_owned(),
            tier: Tier::Expert,
            rubric: rubric(),
            opened_at: "2026-05-01T09:00:00Z".to_owned(),
            seed: 1,
            salt: String::new(),
            runs: Vec::new(),
            judge: None,
            copies: 1,
            anchors: Anchors::default(),
            inclusion: Vec::new(),
        },
        state,
        closed_at: None,
        lives_until_ms: 0,
        judge: Some(judge()),
        drift: None,
        anchor_files: anchor_files.to_vec(),
    }
}

#[test]
fn a_sitting_that_is_not_there_is_written_and_closed() {
    let comes = sitting(SittingState::Open, &[file("s", 1.0)]);
    let plan = SittingPlan::new(None, &comes);
    assert!(plan.is_new && !plan.is_empty());
    assert_eq!(plan.anchor_files, comes.anchor_files);
    let closing = plan.closing.unwrap();
    assert_eq!(closing.state, SittingState::Closed);
    assert_eq!(closing.at, comes.sitting.opened_at);
    assert_eq!(closing.judge, comes.judge);
}

#[test]
fn a_sitting_that_is_there_gets_missing_anchors_and_keeps_its_state() {
    let here = sitting(SittingState::Closed, &[file("s", 1.0)]);
    for state in [SittingState::Open, SittingState::Closed] {
        let comes = sitting(state, &[file("s", 1.0)]);
        assert!(SittingPlan::new(Some(&here), &comes).is_empty());
    }
    let comes = sitting(SittingState::Closed, &[file("s", 1.0), file("s", 2.0)]);
    let plan = SittingPlan::new(Some(&here), &comes);
    assert_eq!(plan.anchor_files, [file("s", 2.0)]);
    assert!(plan.closing.is_none() && !plan.is_empty());
}

#[test]
fn a_quarantine_is_copied_and_never_lifted() {
    let quarantined = sitting(SittingState::Quarantined, &[]);
    let closed = sitting(SittingState::Closed, &[]);
    let state = |existing, incoming| {
        let closing = SittingPlan::new(existing, incoming).closing;
        closing.map(|it| it.state)
    };
    let expected = Some(SittingState::Quarantined);
    assert_eq!(state(None, &quarantined), expected);
    assert_eq!(state(Some(&closed), &quarantined), expected);
    assert_eq!(state(Some(&quarantined), &quarantined), None);
    assert_eq!(state(Some(&quarantined), &closed), None);
}

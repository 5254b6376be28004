//! Sittings: pending runs, all-or-nothing commits, and what they leave behind.

use std::collections::BTreeSet;

use assize_domain::anchor::Anchors;
use assize_domain::judge::Tier;
use assize_domain::run::tag;
use assize_domain::sitting::Sitting;
use assize_domain::verdict::{RubricRef, VerdictFile};
use assize_store::embedded::EmbeddedStore;
use assize_store::{
    Cells as _, Committed, PendingQuery, PendingRun, Queue as _, Run, Runs as _, Sittings as _,
    StoreError,
};

use crate::common::{candidate, cell, cell_with, failed_cell, open, rubric, verdicts};

pub struct Desk {
    pub store: EmbeddedStore,
    pub runs: Vec<String>,
    _dir: tempfile::TempDir,
}

/// Two finished runs of two candidates, and a failed one.
pub fn desk() -> Desk {
    let dir = tempfile::tempdir().unwrap();
    let store = open(&dir.path().join("assize.db"));
    let cells = [
        cell("k1", "m1", "s1"),
        cell("k2", "m2", "s1"),
        failed_cell("k3", "m3", "s1"),
    ];
    let recorded = store.cells_record("e", &cells).unwrap();
    Desk {
        store,
        runs: recorded.into_iter().filter_map(|it| it.run_id).collect(),
        _dir: dir,
    }
}

/// The same; the first run has half a file of a person and one of a model, the second a whole
/// one of the person.
pub fn judged_desk() -> Desk {
    let desk = desk();
    desk.commit(&[
        (0, verdicts("s-1", "human", &[(0, 1)])),
        (1, verdicts("s-1", "human", &[(0, 3), (1, 3)])),
    ])
    .unwrap();
    desk.commit(&[(0, verdicts("a-1", "haiku", &[(1, 2)]))])
        .unwrap();
    desk
}

impl Desk {
    pub fn commit(&self, files: &[(usize, VerdictFile)]) -> assize_store::Result<Committed> {
        let files: Vec<(String, VerdictFile)> = files
            .iter()
            .map(|(run, file)| (self.runs[*run].clone(), file.clone()))
            .collect();
        self.store.sitting_commit(&files, &rubric())
    }

    fn pending(&self, tier: Tier) -> Vec<PendingRun> {
        pending(&self.store, tier, None)
    }

    fn run(&self, run: usize) -> Run {
        self.store.run_get(&self.runs[run]).unwrap()
    }
}

fn pending(store: &EmbeddedStore, tier: Tier, kind: Option<&str>) -> Vec<PendingRun> {
    let query = PendingQuery {
        tier,
        judge_kind: kind.map(str::to_owned),
    };
    let mut found = Vec::new();
    store
        .pending_each("e", &query, &mut |run| {
            found.push(run);
            Ok(())
        })
        .unwrap();
    found
}

fn metric(run: &Run, name: &str) -> Option<f64> {
    let found = run.metrics.iter().find(|(key, _)| key == name);
    found.map(|(_, value)| *value)
}

fn tag_of(run: &Run, name: &str) -> Option<String> {
    let found = run.tags.iter().find(|(key, _)| key == name);
    found.map(|(_, value)| value.clone())
}

#[test]
fn finished_runs_wait_in_the_order_of_their_creation() {
    let desk = desk();
    for tier in Tier::ALL {
        let waiting = desk.pending(tier);
        let ids: Vec<&str> = waiting.iter().map(|it| it.run_id.as_str()).collect();
        assert_eq!(ids, [&desk.runs[0], &desk.runs[1]], "{tier}");
        assert_eq!(waiting[0].scenario, "s1");
        assert_eq!(waiting[0].judge_kind, "claude-code");
        assert_eq!(waiting[0].rubric.sha256, rubric().sha256);
        assert_eq!(waiting[0].context, "{\"persona\":\"nurse\"}");
        assert_eq!(waiting[0].candidates.len(), 2);
        assert_eq!(waiting[0].judged, BTreeSet::new());
    }
    assert_eq!(
        pending(&desk.store, Tier::Expert, Some("claude-code")).len(),
        2
    );
    assert_eq!(pending(&desk.store, Tier::Expert, Some("human")).len(), 0);
}

#[test]
fn pending_runs_come_page_after_page_while_they_are_judged() {
    let dir = tempfile::tempdir().unwrap();
    let store = open(&dir.path().join("assize.db"));
    let cells: Vec<_> = (0..200)
        .map(|n| cell(&format!("k{n}"), &format!("m{n}"), "s1"))
        .collect();
    let recorded = store.cells_record("e", &cells).unwrap();
    let query = PendingQuery {
        tier: Tier::Auto,
        judge_kind: None,
    };
    let mut visited = Vec::new();
    store
        .pending_each("e", &query, &mut |run| {
            let file = verdicts("auto-1", "haiku", &[(0, 2), (1, 3)]);
            store.sitting_commit(&[(run.run_id.clone(), file)], &rubric())?;
            visited.push(run.run_id);
            Ok(())
        })
        .unwrap();
    let expected: Vec<String> = recorded.into_iter().filter_map(|it| it.run_id).collect();
    assert_eq!(visited, expected);
    assert_eq!(pending(&store, Tier::Auto, None), []);
    assert_eq!(pending(&store, Tier::Expert, None).len(), 200);
}

#[test]
fn a_visitor_that_fails_ends_the_visit() {
    let desk = desk();
    let query = PendingQuery {
        tier: Tier::Expert,
        judge_kind: None,
    };
    let mut visits = 0;
    let outcome = desk.store.pending_each("e", &query, &mut |_| {
        visits += 1;
        Err(StoreError::Conflict("enough".to_owned()))
    });
    assert_eq!(outcome.unwrap_err().to_string(), "enough");
    assert_eq!(visits, 1);
}

#[test]
fn a_sitting_leaves_files_metrics_and_tags() {
    let desk = desk();
    let file = verdicts("s-1", "human", &[(0, 1), (1, 2)]);
    let committed = desk.commit(&[(0, file.clone())]).unwrap();
    assert_eq!(committed.runs_written, 1);

    let run = desk.run(0);
    assert!(run.artifacts.contains(&"verdicts/s-1.json".to_owned()));
    assert_eq!(desk.store.verdicts_get(&desk.runs[0]).unwrap(), [file]);
    for name in ["composite", "expert.composite"] {
        assert_eq!(metric(&run, name), Some(3.5), "{name}");
    }
    assert_eq!(metric(&run, "tone"), Some(1.5));
    assert_eq!(metric(&run, "auto.composite"), None);
    assert_eq!(tag_of(&run, tag::JUDGE_PENDING).as_deref(), Some("false"));
    assert_eq!(tag_of(&run, tag::AUTO_PENDING).as_deref(), Some("true"));
    assert_eq!(tag_of(&run, tag::JUDGE_KIND).as_deref(), Some("human"));
    assert_eq!(
        tag_of(&run, tag::JUDGED_BY).as_deref(),
        Some("human at work")
    );
    assert_eq!(desk.pending(Tier::Expert).len(), 1);
    assert_eq!(desk.pending(Tier::Auto).len(), 2);
}

#[test]
fn the_same_sitting_again_changes_nothing() {
    let desk = desk();
    let files = [
        (0, verdicts("s-1", "human", &[(0, 1), (1, 2)])),
        (1, verdicts("s-1", "human", &[(0, 3), (1, 3)])),
    ];
    desk.commit(&files).unwrap();
    let before = (desk.run(0), desk.run(1));
    let committed = desk.commit(&files).unwrap();
    assert_eq!(
        committed,
        Committed {
            runs_written: 0,
            runs_unchanged: 2
        }
    );
    assert_eq!((desk.run(0), desk.run(1)), before);
}

#[test]
fn changed_scores_are_a_conflict_and_nothing_is_written() {
    let desk = desk();
    desk.commit(&[(1, verdicts("s-1", "human", &[(0, 3), (1, 3)]))])
        .unwrap();
    let before = (desk.run(0), desk.run(1));
    let error = desk
        .commit(&[
            (0, verdicts("s-1", "human", &[(0, 1), (1, 2)])),
            (1, verdicts("s-1", "human", &[(0, 3), (1, 2)])),
        ])
        .unwrap_err();
    assert!(matches!(error, StoreError::Conflict(_)), "{error}");
    assert!(error.to_string().contains("candidate 1"), "{error}");
    assert_eq!((desk.run(0), desk.run(1)), before);
    assert_eq!(desk.store.verdicts_get(&desk.runs[0]).unwrap(), []);
}

#[test]
fn an_unknown_run_candidate_or_rubric_fails_the_whole_sitting() {
    let desk = desk();
    let good = (desk.runs[0].clone(), verdicts("s-1", "human", &[(0, 1)]));
    let fails = |bad: (String, VerdictFile), expected: &str| {
        let error = desk
            .store
            .sitting_commit(&[good.clone(), bad], &rubric())
            .unwrap_err();
        assert!(error.to_string().contains(expected), "{error}");
    };
    fails(
        ("f".repeat(32), verdicts("s-1", "human", &[(0, 1)])),
        "there is no run",
    );
    fails(
        (desk.runs[1].clone(), verdicts("s-1", "human", &[(7, 1)])),
        "no candidate 7",
    );
    let mut other = verdicts("s-1", "human", &[(0, 1)]);
    other.rubric.sha256 = "another".to_owned();
    fails((desk.runs[1].clone(), other), "another version");
    assert_eq!(desk.store.verdicts_get(&desk.runs[0]).unwrap(), []);
    assert_eq!(desk.pending(Tier::Expert).len(), 2);
}

#[test]
fn parts_of_a_sitting_add_up() {
    let desk = desk();
    desk.commit(&[(0, verdicts("s-1", "human", &[(0, 1)]))])
        .unwrap();
    let run = desk.run(0);
    assert_eq!(tag_of(&run, tag::JUDGE_PENDING).as_deref(), Some("true"));
    assert_eq!(tag_of(&run, tag::JUDGED_BY), None);
    assert_eq!(metric(&run, "expert.composite"), Some(3.0));
    let waiting = desk.pending(Tier::Expert);
    assert_eq!(waiting[0].judged, BTreeSet::from([0]));

    let whole = verdicts("s-1", "human", &[(0, 1), (1, 2)]);
    let committed = desk.commit(&[(0, whole)]).unwrap();
    assert_eq!(committed.runs_written, 1);
    let run = desk.run(0);
    let parts: Vec<&String> = run
        .artifacts
        .iter()
        .filter(|it| it.starts_with("verdicts/"))
        .collect();
    assert_eq!(parts, ["verdicts/s-1.2.json", "verdicts/s-1.json"]);
    assert_eq!(metric(&run, "expert.composite"), Some(3.5));
    assert_eq!(tag_of(&run, tag::JUDGE_PENDING).as_deref(), Some("false"));
    assert_eq!(desk.pending(Tier::Expert).len(), 1);
}

#[test]
fn both_tiers_stand_side_by_side_and_the_expert_counts() {
    let desk = desk();
    desk.commit(&[(0, verdicts("a-1", "haiku", &[(0, 3), (1, 3)]))])
        .unwrap();
    let run = desk.run(0);
    assert_eq!(metric(&run, "composite"), Some(5.0));
    assert_eq!(tag_of(&run, tag::AUTO_PENDING).as_deref(), Some("false"));
    assert_eq!(
        tag_of(&run, tag::JUDGE_KIND).as_deref(),
        Some("claude-code")
    );
    desk.commit(&[(0, verdicts("s-1", "human", &[(0, 1), (1, 1)]))])
        .unwrap();
    let run = desk.run(0);
    assert_eq!(metric(&run, "composite"), Some(3.0));
    assert_eq!(metric(&run, "expert.composite"), Some(3.0));
    assert_eq!(metric(&run, "auto.composite"), Some(5.0));
    assert_eq!(desk.store.verdicts_get(&desk.runs[0]).unwrap().len(), 2);
}

#[test]
fn candidates_without_a_text_are_not_waited_for() {
    let dir = tempfile::tempdir().unwrap();
    let store = open(&dir.path().join("assize.db"));
    let cells = [
        cell_with(
            "k1",
            "m1",
            "s1",
            &[candidate(0, None), candidate(1, Some("Rest."))],
        ),
        cell_with("k2", "m2", "s1", &[candidate(0, None)]),
    ];
    let recorded = store.cells_record("e", &cells).unwrap();
    let waiting = pending(&store, Tier::Expert, None);
    assert_eq!(waiting.len(), 1, "a run without any text is not handed out");
    let file = verdicts("s-1", "human", &[(1, 2)]);
    store
        .sitting_commit(&[(recorded[0].run_id.clone().unwrap(), file)], &rubric())
        .unwrap();
    assert_eq!(pending(&store, Tier::Expert, None), []);
    assert_eq!(store.judging_count("e").unwrap().expert_judged, 1);
}

#[test]
fn counts_and_lists_agree_with_what_happened() {
    let desk = desk();
    desk.commit(&[(0, verdicts("s-1", "human", &[(0, 1), (1, 2)]))])
        .unwrap();
    desk.commit(&[(1, verdicts("a-1", "haiku", &[(0, 1), (1, 2)]))])
        .unwrap();
    let counts = desk.store.judging_count("e").unwrap();
    assert_eq!((counts.runs, counts.candidates, counts.failed), (2, 4, 1));
    assert_eq!((counts.expert_pending, counts.expert_judged), (1, 1));
    assert_eq!((counts.auto_pending, counts.auto_judged), (1, 1));
    assert_eq!(counts.pending_by_kind, [("claude-code".to_owned(), 1)]);
    let listed = desk.store.experiment_list().unwrap();
    assert_eq!(listed.len(), 1, "the empty Default is not listed");
    assert_eq!(listed[0].name, "e");
    assert_eq!(
        (listed[0].runs, listed[0].pending, listed[0].judged),
        (3, 1, 1)
    );
}

/// A sitting to which one run was handed out.
pub fn sitting(id: &str, run: &str) -> Sitting {
    Sitting {
        id: id.to_owned(),
        experiment: "e".to_owned(),
        tier: Tier::Expert,
        rubric: RubricRef {
            id: "r-1".to_owned(),
            sha256: rubric().sha256,
        },
        opened_at: "2026-05-01T10:00:00Z".to_owned(),
        seed: u64::MAX,
        salt: "salt".to_owned(),
        runs: vec![(run.to_owned(), vec![0, 1])],
        judge: None,
        copies: 1,
        anchors: Anchors::default(),
        inclusion: Vec::new(),
    }
}

#[test]
fn a_sitting_is_kept_as_it_was_opened() {
    let desk = desk();
    let sitting = sitting("s-1", &desk.runs[0]);
    desk.store.sitting_open(&sitting).unwrap();
    desk.store.sitting_open(&sitting).unwrap();
    let other = Sitting {
        salt: "pepper".to_owned(),
        ..sitting.clone()
    };
    let error = desk.store.sitting_open(&other).unwrap_err();
    assert!(error.to_string().contains("another sitting"), "{error}");
    assert_eq!(desk.store.sitting_get("s-1").unwrap(), Some(sitting));
    assert_eq!(desk.store.sitting_get("s-2").unwrap(), None);
}

#[test]
fn what_was_judged_stays_as_it_is() {
    let desk = judged_desk();
    let mlflow = desk.store.mlflow();
    let write = |run: &str, text: &str| {
        let mut file = tempfile::tempfile().unwrap();
        std::io::Write::write_all(&mut file, text.as_bytes()).unwrap();
        mlflow.artifact_write(run, "candidates.json", file)
    };
    let run = desk.runs[0].as_str();
    let kept = mlflow.artifact_text(run, "candidates.json").unwrap();
    let kept = kept.expect("candidates");
    write(run, &kept).expect("the same again");
    let refused = write(run, "[]").unwrap_err().to_string();
    assert!(refused.contains("was judged"), "{refused}");
    let refused = mlflow.artifact_delete(run, "candidates.json").unwrap_err();
    assert!(refused.to_string().contains("was judged"), "{refused}");
    assert_eq!(
        mlflow.artifact_text(run, "candidates.json").unwrap(),
        Some(kept)
    );
    // Nobody has judged this one.
    write(&desk.runs[2], "[]").expect("taken");
}

//! What the tests of the embedded store share: cells like the ones collect makes, and a
//! rubric with verdicts for them.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use assize_domain::candidate::Candidate;
use assize_domain::judge::Judge;
use assize_domain::rubric::Rubric;
use assize_domain::run::{CellRecord, RunStatus, artifact, metric, param, tag};
use assize_domain::verdict::{RubricRef, Verdict, VerdictFile};
use assize_store::embedded::{EmbeddedStore, random_run_id};

pub const NOW_MS: i64 = 1_800_000_000_000;

pub fn open(path: &Path) -> EmbeddedStore {
    EmbeddedStore::open(path, || NOW_MS, random_run_id).unwrap()
}

pub fn rubric() -> Rubric {
    Rubric::parse(
        "rubric.md",
        "+++\nid = \"r-1\"\ncomposite = \"tone + 2*ok\"\n[[criteria]]\nname = \"tone\"\nmin = 1\n\
         max = 3\n[criteria.anchors]\n1 = \"rude\"\n2 = \"flat\"\n3 = \"kind\"\n[[flags]]\n\
         name = \"ok\"\n+++\nProse.\n",
    )
    .unwrap()
}

pub fn candidate(index: u32, text: Option<&str>) -> Candidate {
    Candidate {
        thinking_tokens: 0,
        batch: 0.0,
        index,
        seed: 7 + index,
        text: text.map(str::to_owned),
        flags: BTreeMap::from([("ok".to_owned(), text.is_some())]),
        scores: BTreeMap::new(),
        not_computed: Vec::new(),
        reasons: Vec::new(),
        problem: None,
        error: text.is_none().then(|| "timed out".to_owned()),
        angle: None,
        truncated: false,
        prompt_tokens: 11,
        completion_tokens: 5,
        latency_ms: 1.5,
    }
}

/// A finished cell of two candidates.
pub fn cell(key: &str, model: &str, scenario: &str) -> CellRecord {
    cell_with(
        key,
        model,
        scenario,
        &[candidate(0, Some("Walk.")), candidate(1, Some("Rest."))],
    )
}

pub fn cell_with(key: &str, model: &str, scenario: &str, candidates: &[Candidate]) -> CellRecord {
    let text = |value: &str| Arc::<str>::from(value);
    let rubric = rubric();
    let pairs = |pairs: &[(&str, &str)]| {
        pairs
            .iter()
            .map(|(key, value)| (text(key), text(value)))
            .collect()
    };
    CellRecord {
        cell_key: key.to_owned(),
        name: format!("{model} × v1 × {scenario}"),
        status: RunStatus::Finished,
        start_time_ms: NOW_MS - 50,
        end_time_ms: NOW_MS - 10,
        params: pairs(&[
            (param::TASK, "tip"),
            (param::MODEL, model),
            (param::PROMPT, "v1"),
            (param::SCENARIO, scenario),
            (param::SPLIT, "selection"),
            ("temperature", "0.7"),
        ]),
        tags: pairs(&[
            (tag::JUDGE_PENDING, "true"),
            (tag::AUTO_PENDING, "true"),
            (tag::JUDGE_KIND, "claude-code"),
            (tag::RUBRIC, &rubric.id),
            (tag::RUBRIC_SHA256, &rubric.sha256),
            (tag::PROMPT_SHA256, "5e1f"),
            (tag::CELL_KEY, key),
        ]),
        metrics: vec![
            (metric::N_CANDIDATES.into(), candidates.len() as f64),
            (metric::LATENCY_MS.into(), 40.0),
            (metric::TOKENS_PER_S.into(), 88.5),
        ],
        artifacts: vec![
            (artifact::PROMPT.into(), text("Give a tip.")),
            (artifact::CONTEXT.into(), text("{\"persona\":\"nurse\"}")),
            (
                artifact::CANDIDATES.into(),
                text(&serde_json::to_string(candidates).unwrap()),
            ),
            (artifact::RAW.into(), text("Walk.\nRest.")),
            (artifact::RUBRIC.into(), text(&rubric.text)),
        ],
    }
}

/// A cell for which nothing could be generated.
pub fn failed_cell(key: &str, model: &str, scenario: &str) -> CellRecord {
    let mut cell = cell_with(key, model, scenario, &[candidate(0, None)]);
    cell.status = RunStatus::Failed;
    cell.tags.push((tag::ERROR.into(), "timed out".into()));
    cell
}

/// What a sitting found; `scores` are (candidate, tone).
pub fn verdicts(sitting: &str, kind: &str, scores: &[(u32, i64)]) -> VerdictFile {
    let rubric = rubric();
    let judge = Judge {
        kind: kind.to_owned(),
        name: format!("{kind} at work"),
        version: None,
    };
    VerdictFile {
        sitting: sitting.to_owned(),
        tier: judge.tier(),
        judge,
        rubric: RubricRef {
            id: rubric.id,
            sha256: rubric.sha256,
        },
        judged_at: format!("2026-05-01T10:00:00Z-{sitting}"),
        usage: None,
        amends: None,
        verdicts: scores
            .iter()
            .map(|(candidate, tone)| Verdict {
                candidate: *candidate,
                scores: BTreeMap::from([
                    ("tone".to_owned(), (*tone).into()),
                    ("ok".to_owned(), true.into()),
                ]),
                composite: *tone as f64 + 2.0,
                rationale: Some(format!("tone {tone}")),
            })
            .collect(),
    }
}

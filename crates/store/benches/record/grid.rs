//! Cells like the ones that collect makes, and verdicts for them.

use std::collections::BTreeMap;
use std::sync::Arc;

use assize_domain::candidate::Candidate;
use assize_domain::hash::sha256_hex;
use assize_domain::judge::{Judge, Tier};
use assize_domain::rubric::Rubric;
use assize_domain::run::{CellRecord, RunStatus, artifact, metric, param, tag};
use assize_domain::verdict::{RubricRef, Verdict, VerdictFile};

use crate::{BATCH, Outcome};

const CANDIDATES: u32 = 5;
const MODELS: usize = 4;
const PROMPTS: usize = 5;

/// A grid of cells, made one after the other so that the grid itself takes no memory.
pub struct Grid {
    pub cells: usize,
    scenarios: usize,
    pub rubric: Rubric,
    rubric_text: Arc<str>,
    keys: Vec<Arc<str>>,
}

impl Grid {
    pub fn new(cells: usize) -> Outcome<Self> {
        let criterion = |name| {
            format!(
                "[[criteria]]\nname = \"{name}\"\nmin = 1\nmax = 5\n[criteria.anchors]\n\
                 1 = \"a\"\n2 = \"b\"\n3 = \"c\"\n4 = \"d\"\n5 = \"e\"\n"
            )
        };
        let text = format!(
            "+++\nid = \"tip-v1\"\ncomposite = \"relevance + actionability + tone\"\n{}\
             [[flags]]\nname = \"format_ok\"\n[[flags]]\nname = \"overlong\"\n+++\n{}",
            ["relevance", "actionability", "tone"]
                .map(criterion)
                .join(""),
            "A calibrated example with its scores and the reasons for them. ".repeat(110)
        );
        let rubric = Rubric::parse("rubric.md", &text).map_err(|it| format!("{it:?}"))?;
        let options = (0..19).map(|n| Arc::from(format!("collect_option_{n}")));
        Ok(Self {
            cells,
            scenarios: cells.div_ceil(MODELS * PROMPTS),
            rubric_text: Arc::from(text.as_str()),
            rubric,
            keys: options.collect(),
        })
    }

    pub fn batches(&self) -> impl Iterator<Item = Vec<CellRecord>> {
        (0..self.cells).step_by(BATCH).map(|start| {
            let end = (start + BATCH).min(self.cells);
            (start..end).map(|number| self.cell(number)).collect()
        })
    }

    fn cell(&self, number: usize) -> CellRecord {
        let model = format!("model-{}:1.5b", number / (self.scenarios * PROMPTS));
        let prompt = format!("v{}", number / self.scenarios % PROMPTS);
        let scenario = format!("scenario-{}", number % self.scenarios);
        let cell_key = sha256_hex(number.to_string().as_bytes());
        let hash = |what: &str| Arc::<str>::from(sha256_hex(what.as_bytes()));
        let mut params = vec![
            (text(param::TASK), text("tip")),
            (text(param::MODEL), text(&model)),
            (text(param::PROMPT), text(&prompt)),
            (text(param::SCENARIO), text(&scenario)),
            (text(param::SPLIT), text("selection")),
            (text("persona"), text(&format!("persona {}", number % 17))),
        ];
        let value = text("http://127.0.0.1:11434");
        params.extend(self.keys.iter().map(|key| (key.clone(), value.clone())));
        CellRecord {
            name: format!("{model} × {prompt} × {scenario}"),
            status: RunStatus::Finished,
            start_time_ms: 1_800_000_000_000 + i64::try_from(number).unwrap_or(0),
            end_time_ms: 1_800_000_000_400 + i64::try_from(number).unwrap_or(0),
            params,
            tags: vec![
                (text(tag::JUDGE_PENDING), text("true")),
                (text(tag::AUTO_PENDING), text("true")),
                (text(tag::JUDGE_KIND), text("claude-code")),
                (text(tag::RUBRIC), text("tip-v1")),
                (text(tag::RUBRIC_SHA256), text(&self.rubric.sha256)),
                (text(tag::PROMPT_SHA256), hash(&prompt)),
                (text(tag::SCENARIO_SHA256), hash(&scenario)),
                (text(tag::MODEL_DIGEST), hash(&model)),
                (text(tag::CELL_KEY), text(&cell_key)),
                (text(tag::ASSIZE_VERSION), text("0.1.0")),
                (text(tag::PROVENANCE), text("ollama 0.12.3")),
                (text("mlflow.source.name"), text("assize")),
                (text("mlflow.source.type"), text("LOCAL")),
                (text("mlflow.user"), text("somebody")),
                (text("mlflow.runName"), text(&format!("{model} {prompt}"))),
            ],
            metrics: metrics(number)
                .into_iter()
                .map(|(name, value)| (name.into(), value))
                .collect(),
            artifacts: vec![
                (
                    artifact::PROMPT.into(),
                    text(&format!("{prompt} {scenario} ").repeat(60)),
                ),
                (
                    artifact::CONTEXT.into(),
                    text(&format!(
                        "{{\"persona\":\"{scenario}\",\"tasks\":[\"{}\"]}}",
                        "walk the dog, ".repeat(20)
                    )),
                ),
                (artifact::CANDIDATES.into(), candidates(number)),
                (artifact::RAW.into(), text(&raw_text(number).repeat(5))),
                (artifact::RUBRIC.into(), self.rubric_text.clone()),
            ],
            cell_key,
        }
    }

    pub fn file(&self, number: usize, sitting: &str) -> VerdictFile {
        VerdictFile {
            sitting: sitting.to_owned(),
            tier: Tier::Expert,
            judge: Judge {
                kind: "claude-code".to_owned(),
                name: "session 12".to_owned(),
                version: None,
            },
            rubric: RubricRef {
                id: self.rubric.id.clone(),
                sha256: self.rubric.sha256.clone(),
            },
            judged_at: "2026-05-01T10:00:00Z".to_owned(),
            usage: None,
            amends: None,
            verdicts: (0..CANDIDATES)
                .map(|candidate| verdict(number, candidate))
                .collect(),
        }
    }
}

fn verdict(number: usize, candidate: u32) -> Verdict {
    let score = |salt: usize| 1 + (number * 7 + candidate as usize * 3 + salt) % 5;
    let scores = [score(1), score(2), score(3)];
    let names = ["relevance", "actionability", "tone"];
    let mut map: BTreeMap<_, _> = names
        .into_iter()
        .zip(scores)
        .map(|(name, value)| (name.to_owned(), value.into()))
        .collect();
    map.insert("format_ok".to_owned(), true.into());
    map.insert("overlong".to_owned(), false.into());
    Verdict {
        candidate,
        scores: map,
        composite: scores.iter().sum::<usize>() as f64 + 2.0,
        rationale: Some("Concrete, fits the slot, a little flat in tone.".to_owned()),
    }
}

fn text(value: &str) -> Arc<str> {
    Arc::from(value)
}

fn raw_text(number: usize) -> String {
    format!("Tip {number}: put the heaviest task first and take a walk before the second one. ")
}

fn candidates(number: usize) -> Arc<str> {
    let all: Vec<Candidate> = (0..CANDIDATES)
        .map(|index| Candidate {
            thinking_tokens: 0,
            batch: 0.0,
            index,
            seed: index + 7,
            text: Some(raw_text(number)),
            flags: BTreeMap::from([
                ("format_ok".to_owned(), true),
                ("overlong".to_owned(), false),
            ]),
            scores: BTreeMap::new(),
            not_computed: Vec::new(),
            reasons: Vec::new(),
            problem: None,
            error: None,
            angle: None,
            truncated: false,
            prompt_tokens: 211,
            completion_tokens: 37,
            latency_ms: 81.25 + f64::from(index),
        })
        .collect();
    Arc::from(serde_json::to_string(&all).unwrap_or_default())
}

fn metrics(number: usize) -> Vec<(&'static str, f64)> {
    let noise = (number * 2_654_435_761 % 10_007) as f64;
    vec![
        (metric::N_CANDIDATES, f64::from(CANDIDATES)),
        (metric::N_FAILED, 0.0),
        (metric::LATENCY_MS, 400.0 + noise / 100.0),
        (metric::LOAD_MS, 1200.0),
        (metric::PROMPT_TOKENS, 1055.0),
        (metric::COMPLETION_TOKENS, 185.0 + noise % 50.0),
        (metric::TOKENS_PER_S, 88.0 + noise / 1000.0),
        (metric::DIVERSITY, noise / 10_007.0),
    ]
}

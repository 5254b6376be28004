//! How fast cells are recorded and boards are read, and how much memory that takes.
//!
//! Every figure has a baseline in the same run, on the same disk: plain SQLite that writes
//! the same bytes as one row a cell, and reads verdict files as one row each.
//!
//! `cargo bench -p assize-store --bench record` for the figures; a number as its argument
//! records that many cells instead of 20,000.

#![expect(clippy::print_stdout, reason = "a benchmark prints its figures")]

use std::collections::BTreeMap;
use std::error::Error;
use std::path::Path;
use std::sync::Arc;
use std::time::Instant;

use assize_domain::candidate::Candidate;
use assize_domain::hash::sha256_hex;
use assize_domain::judge::{Judge, Tier};
use assize_domain::rubric::Rubric;
use assize_domain::run::{CellRecord, RunStatus, artifact, metric, param, tag};
use assize_domain::scenario::Split;
use assize_domain::verdict::{LeanScores, RubricRef, Verdict, VerdictFile};
use assize_store::Tracking;
use assize_store::embedded::{EmbeddedStore, random_run_id};
use rusqlite::Connection;

type Outcome<T> = Result<T, Box<dyn Error>>;

const BATCH: usize = 64;
const CANDIDATES: u32 = 5;
const MODELS: usize = 4;
const PROMPTS: usize = 5;

fn main() -> Outcome<()> {
    let wanted = std::env::args().skip(1).find_map(|it| it.parse().ok());
    let cells = wanted.unwrap_or(20_000);
    let dir = tempfile::tempdir()?;
    let grid = Grid::new(cells)?;

    let raw = raw_record(&dir.path().join("raw.db"), &grid)?;
    println!("record, one blob row a cell (baseline): {raw:>10.0} cells/s");
    let path = dir.path().join("assize.db");
    let store = EmbeddedStore::open(&path, || 1_800_000_000_000, random_run_id)?;
    let ours = record(&store, &grid)?;
    println!("record, whole runs:                     {ours:>10.0} cells/s");
    let started = Instant::now();
    let again = record(&store, &grid)?;
    println!("record again, nothing to do:            {again:>10.0} cells/s");
    let _ = started;

    let judged = judge(&store, &grid)?;
    println!("commit sittings of 200 runs:            {judged:>10.0} runs/s");

    let raw_ms = raw_board(&dir.path().join("raw.db"), &grid)?;
    println!("board, one row a file (baseline):       {raw_ms:>10.1} ms");
    for _ in 0..3 {
        let (verdicts, ms) = board(&store)?;
        println!("board, {verdicts} verdicts:                {ms:>10.1} ms");
    }
    drop(store);
    let bytes = std::fs::metadata(&path)?.len();
    println!(
        "file: {:.2} KB a judged cell; memory at most {:.1} MB",
        bytes as f64 / 1024.0 / cells as f64,
        memory_mb("VmHWM")
    );
    Ok(())
}

fn memory_mb(field: &str) -> f64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find(|line| line.starts_with(field));
    let kb = line.and_then(|line| line.split_whitespace().nth(1)?.parse::<f64>().ok());
    kb.unwrap_or(f64::NAN) / 1024.0
}

/// A grid of cells, made one after the other so that the grid itself takes no memory.
struct Grid {
    cells: usize,
    scenarios: usize,
    rubric: Rubric,
    rubric_text: Arc<str>,
    keys: Vec<Arc<str>>,
}

impl Grid {
    fn new(cells: usize) -> Outcome<Self> {
        let text = format!(
            "+++\nid = \"tip-v1\"\ncomposite = \"relevance + actionability + tone + 2*format_ok - \
             overlong\"\n{}\n[[flags]]\nname = \"format_ok\"\n[[flags]]\nname = \"overlong\"\n\
             +++\n{}",
            ["relevance", "actionability", "tone"]
                .map(|name| format!(
                    "[[criteria]]\nname = \"{name}\"\nmin = 1\nmax = 5\n[criteria.anchors]\n\
                     1 = \"a\"\n2 = \"b\"\n3 = \"c\"\n4 = \"d\"\n5 = \"e\"\n"
                ))
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

    fn batches(&self) -> impl Iterator<Item = Vec<CellRecord>> {
        (0..self.cells).step_by(BATCH).map(|start| {
            let end = (start + BATCH).min(self.cells);
            (start..end).map(|number| self.cell(number)).collect()
        })
    }

    fn cell(&self, number: usize) -> CellRecord {
        let text = |value: &str| Arc::<str>::from(value);
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
            metrics: metrics(number),
            artifacts: vec![
                (
                    artifact::PROMPT,
                    text(&format!("{prompt} {scenario} ").repeat(60)),
                ),
                (
                    artifact::CONTEXT,
                    text(&format!(
                        "{{\"persona\":\"{scenario}\",\"tasks\":[\"{}\"]}}",
                        "walk the dog, ".repeat(20)
                    )),
                ),
                (artifact::CANDIDATES, candidates(number)),
                (artifact::RAW, text(&raw_text(number).repeat(5))),
                (artifact::RUBRIC, self.rubric_text.clone()),
            ],
            cell_key,
        }
    }

    fn file(&self, number: usize, sitting: &str) -> VerdictFile {
        VerdictFile {
            sitting: sitting.to_owned(),
            tier: Tier::Expert,
            judge: Judge {
                kind: "claude-code".to_owned(),
                name: "session 12".to_owned(),
            },
            rubric: RubricRef {
                id: self.rubric.id.clone(),
                sha256: self.rubric.sha256.clone(),
            },
            judged_at: "2026-05-01T10:00:00Z".to_owned(),
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

fn raw_text(number: usize) -> String {
    format!("Tip {number}: put the heaviest task first and take a walk before the second one. ")
}

fn candidates(number: usize) -> Arc<str> {
    let all: Vec<Candidate> = (0..CANDIDATES)
        .map(|index| Candidate {
            index,
            seed: index + 7,
            text: Some(raw_text(number)),
            flags: BTreeMap::from([
                ("format_ok".to_owned(), true),
                ("overlong".to_owned(), false),
            ]),
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

/// Cells a second, counting the store's time only.
fn record(store: &EmbeddedStore, grid: &Grid) -> Outcome<f64> {
    let mut seconds = 0.0;
    let mut done = 0;
    for batch in grid.batches() {
        let started = Instant::now();
        done += store.cells_record("bench", &batch)?.len();
        seconds += started.elapsed().as_secs_f64();
        if [1_000, 10_000, 50_000]
            .iter()
            .any(|it| (done - batch.len()..done).contains(it))
        {
            println!("    at {done} cells: {:.1} MB resident", memory_mb("VmRSS"));
        }
    }
    Ok(done as f64 / seconds)
}

fn judge(store: &EmbeddedStore, grid: &Grid) -> Outcome<f64> {
    let mut seconds = 0.0;
    let numbers: Vec<usize> = (0..grid.cells).collect();
    for (sitting, chunk) in numbers.chunks(200).enumerate() {
        let keys: Vec<String> = chunk
            .iter()
            .map(|number| sha256_hex(number.to_string().as_bytes()))
            .collect();
        let known = store.cells_known("bench", &keys)?;
        let files: Vec<(String, VerdictFile)> = chunk
            .iter()
            .zip(known)
            .filter_map(|(number, cell)| {
                Some((cell?.run_id, grid.file(*number, &format!("s-{sitting}"))))
            })
            .collect();
        let started = Instant::now();
        store.sitting_commit(&files, &grid.rubric)?;
        seconds += started.elapsed().as_secs_f64();
    }
    Ok(grid.cells as f64 / seconds)
}

fn board(store: &EmbeddedStore) -> Outcome<(usize, f64)> {
    let started = Instant::now();
    let mut verdicts = 0;
    let mut sum = 0.0;
    store.board_each("bench", Split::Selection, &mut |run| {
        for file in &run.files {
            verdicts += file.verdicts.len();
            sum += file.verdicts.iter().map(|it| it.composite).sum::<f64>();
        }
        Ok(())
    })?;
    std::hint::black_box(sum);
    Ok((verdicts, started.elapsed().as_secs_f64() * 1000.0))
}

fn raw_open(path: &Path) -> Outcome<Connection> {
    let conn = Connection::open(path)?;
    conn.execute_batch(
        "PRAGMA journal_mode = WAL; PRAGMA synchronous = NORMAL;
         CREATE TABLE IF NOT EXISTS cells (id INTEGER PRIMARY KEY, content BLOB NOT NULL);
         CREATE TABLE IF NOT EXISTS files (id INTEGER PRIMARY KEY, content BLOB NOT NULL)",
    )?;
    Ok(conn)
}

/// The bytes of a run that no other run has, as one row.
fn raw_record(path: &Path, grid: &Grid) -> Outcome<f64> {
    let mut conn = raw_open(path)?;
    let mut seconds = 0.0;
    for batch in grid.batches() {
        let started = Instant::now();
        let transaction = conn.transaction()?;
        for cell in &batch {
            let mut content = String::with_capacity(8192);
            for (key, value) in cell.params.iter().chain(&cell.tags) {
                content.push_str(key);
                content.push_str(value);
            }
            for (path, text) in &cell.artifacts[2..4] {
                content.push_str(path);
                content.push_str(text);
            }
            transaction
                .prepare_cached("INSERT INTO cells (content) VALUES (?1)")?
                .execute([content])?;
        }
        transaction.commit()?;
        seconds += started.elapsed().as_secs_f64();
    }
    Ok(grid.cells as f64 / seconds)
}

fn raw_board(path: &Path, grid: &Grid) -> Outcome<f64> {
    let mut conn = raw_open(path)?;
    let transaction = conn.transaction()?;
    for number in 0..grid.cells {
        let content = serde_json::to_vec(&grid.file(number, "s"))?;
        transaction
            .prepare_cached("INSERT INTO files (content) VALUES (?1)")?
            .execute([content])?;
    }
    transaction.commit()?;
    let started = Instant::now();
    let mut sum = 0.0;
    let mut list = conn.prepare("SELECT content FROM files ORDER BY id")?;
    let mut rows = list.query([])?;
    while let Some(row) = rows.next()? {
        let content = row.get_ref(0)?.as_blob()?;
        let file: VerdictFile<LeanScores<'_>> = serde_json::from_slice(content)?;
        sum += file.verdicts.iter().map(|it| it.composite).sum::<f64>();
    }
    std::hint::black_box(sum);
    Ok(started.elapsed().as_secs_f64() * 1000.0)
}

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
    let raw_path = dir.path().join("raw.db");
    let path = dir.path().join("assize.db");

    raw_record(&raw_path, &grid)?.rate("record, one row a cell (baseline)", "cells", cells);
    let store = EmbeddedStore::open(&path, || 1_800_000_000_000, random_run_id)?;
    record(&store, &grid)?.rate("record, whole runs", "cells", cells);
    record(&store, &grid)?.rate("record again, nothing to do", "cells", cells);
    judge(&store, &grid)?.rate("commit sittings of 200 runs", "runs", cells);

    raw_board(&raw_path, &grid)?.duration("board, one row a file (baseline)");
    for _ in 0..3 {
        let (verdicts, watch) = board(&store)?;
        watch.duration(&format!("board, {verdicts} verdicts"));
    }
    drop(store);
    println!(
        "{:.2} KB a judged cell on disk, {:.1} MB of memory at most",
        std::fs::metadata(&path)?.len() as f64 / 1024.0 / cells as f64,
        memory_mb("VmHWM")
    );
    Ok(())
}

/// Seconds that the threads of this process have spent on a processor; unlike the clock, it
/// does not count what other processes take of a busy machine.
fn cpu_seconds() -> f64 {
    let tasks = std::fs::read_dir("/proc/self/task").into_iter().flatten();
    let nanoseconds: u64 = tasks
        .filter_map(|task| {
            let text = std::fs::read_to_string(task.ok()?.path().join("schedstat")).ok()?;
            text.split_whitespace().next()?.parse::<u64>().ok()
        })
        .sum();
    nanoseconds as f64 / 1e9
}

/// Time that passes while something is measured.
#[derive(Default)]
struct Watch {
    wall: f64,
    cpu: f64,
}

impl Watch {
    fn measure<T>(&mut self, work: impl FnOnce() -> T) -> T {
        let (wall, cpu) = (Instant::now(), cpu_seconds());
        let outcome = work();
        self.wall += wall.elapsed().as_secs_f64();
        self.cpu += cpu_seconds() - cpu;
        outcome
    }

    fn rate(&self, what: &str, unit: &str, count: usize) {
        let count = count as f64;
        println!(
            "{what:<40} {:>8.0} {unit}/s, {:>8.0} {unit} a CPU second",
            count / self.wall,
            count / self.cpu
        );
    }

    fn duration(&self, what: &str) {
        println!("{what:<40} {:>8.1} ms", self.wall * 1e3);
    }
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

fn record(store: &EmbeddedStore, grid: &Grid) -> Outcome<Watch> {
    let mut watch = Watch::default();
    for (number, batch) in grid.batches().enumerate() {
        watch.measure(|| store.cells_record("bench", &batch))?;
        if [1_024, 10_240, 102_400].contains(&(number * BATCH)) {
            let memory = memory_mb("VmRSS");
            println!("    {memory:.1} MB resident after {} cells", number * BATCH);
        }
    }
    Ok(watch)
}

fn judge(store: &EmbeddedStore, grid: &Grid) -> Outcome<Watch> {
    let mut watch = Watch::default();
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
        watch.measure(|| store.sitting_commit(&files, &grid.rubric))?;
    }
    Ok(watch)
}

fn board(store: &EmbeddedStore) -> Outcome<(usize, Watch)> {
    let mut watch = Watch::default();
    let mut verdicts = 0;
    let mut sum = 0.0;
    watch.measure(|| {
        store.board_each("bench", Split::Selection, &mut |run| {
            for file in &run.files {
                verdicts += file.verdicts.len();
                sum += file.verdicts.iter().map(|it| it.composite).sum::<f64>();
            }
            Ok(())
        })
    })?;
    std::hint::black_box(sum);
    Ok((verdicts, watch))
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
fn raw_record(path: &Path, grid: &Grid) -> Outcome<Watch> {
    let mut conn = raw_open(path)?;
    let mut watch = Watch::default();
    for batch in grid.batches() {
        watch.measure(|| raw_record_batch(&mut conn, &batch))?;
    }
    Ok(watch)
}

fn raw_record_batch(conn: &mut Connection, batch: &[CellRecord]) -> rusqlite::Result<()> {
    let transaction = conn.transaction()?;
    for cell in batch {
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
    transaction.commit()
}

fn raw_board(path: &Path, grid: &Grid) -> Outcome<Watch> {
    let mut conn = raw_open(path)?;
    let transaction = conn.transaction()?;
    for number in 0..grid.cells {
        let content = serde_json::to_vec(&grid.file(number, "s"))?;
        transaction
            .prepare_cached("INSERT INTO files (content) VALUES (?1)")?
            .execute([content])?;
    }
    transaction.commit()?;
    let mut watch = Watch::default();
    let sum = watch.measure(|| raw_board_sum(&conn))?;
    std::hint::black_box(sum);
    Ok(watch)
}

fn raw_board_sum(conn: &Connection) -> Outcome<f64> {
    let mut sum = 0.0;
    let mut list = conn.prepare("SELECT content FROM files ORDER BY id")?;
    let mut rows = list.query([])?;
    while let Some(row) = rows.next()? {
        let content = row.get_ref(0)?.as_blob()?;
        let file: VerdictFile<LeanScores<'_>> = serde_json::from_slice(content)?;
        sum += file.verdicts.iter().map(|it| it.composite).sum::<f64>();
    }
    Ok(sum)
}

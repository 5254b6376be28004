//! How fast cells are recorded and boards are read, and how much memory that takes.
//!
//! Every figure has a baseline in the same run, on the same disk: plain SQLite that writes
//! the same bytes as one row a cell, and reads verdict files as one row each.
//!
//! `cargo bench -p assize-store --bench record` for the figures; a number as its argument
//! records that many cells instead of 20,000.

#![expect(clippy::print_stdout, reason = "a benchmark prints its figures")]

mod grid;

use std::error::Error;
use std::path::Path;
use std::time::Instant;

use assize_domain::hash::sha256_hex;
use assize_domain::run::CellRecord;
use assize_domain::scenario::Split;
use assize_domain::verdict::{LeanScores, VerdictFile};
use assize_store::embedded::{EmbeddedStore, random_run_id};
use assize_store::{Boards as _, Cells as _, Sittings as _};
use rusqlite::Connection;

use self::grid::Grid;

type Outcome<T> = Result<T, Box<dyn Error>>;

/// Cells that are recorded with one call.
const BATCH: usize = 64;

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
    let log_bytes = std::fs::metadata(dir.path().join("assize.db-wal"))?.len();
    drop(store);
    println!(
        "{:.2} KB a judged cell on disk, write-ahead log of {:.1} MB, {:.1} MB of memory at most",
        std::fs::metadata(&path)?.len() as f64 / 1024.0 / cells as f64,
        log_bytes as f64 / 1024.0 / 1024.0,
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
                Some((cell?.run_id?, grid.file(*number, &format!("s-{sitting}"))))
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

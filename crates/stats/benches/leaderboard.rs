//! Compares two workloads with the same work in `NumPy`, on the same data and in one run.
//!
//! * board: 1,000,000 rows of 24 treatments × 1,000 blocks are collapsed to cells, scored, compared
//!   with the first treatment by t and by maxT over 10,000 sign vectors, and resampled 10,000 times
//!   for the probability of best.
//! * ragged: the same with gaps, so that the comparisons have unequal numbers of blocks and go by minP.
//! * exact: maxT over all 2^16 sign vectors for 49 challengers of one treatment.
//!
//! `ASSIZE_BENCH_PYTHON` names a Python with `NumPy` and `SciPy`; without it the comparison is
//! skipped, loudly. Figures are medians of several runs after one that does not count.

#![expect(clippy::print_stdout, reason = "a benchmark reports on stdout")]
#![expect(clippy::unwrap_used, reason = "a benchmark fails by panicking")]

use assize_stats::best::probability_of_best_drawn;
use assize_stats::max_t::max_t;
use assize_stats::min_p::{Method, family_tests};
use assize_stats::paired::{differences, pair};
use assize_stats::score::macro_score;
use assize_stats::simulate::BlockModel;
use assize_stats::table::{Row, Table};
use assize_stats::{Alternative, Draws};
use serde_json::Value;
use std::fs;
use std::path::Path;
use std::process::Command;
use std::time::Instant;

const RUNS: usize = 9;
const TREATMENTS: usize = 24;
const BLOCKS: usize = 1000;
const EXACT_TREATMENTS: usize = 50;
const EXACT_BLOCKS: usize = 16;
const BOARD_TARGET_MS: f64 = 150.0;
const EXACT_TARGET_MS: f64 = 50.0;

fn main() {
    let rows = board_rows();
    let family = exact_family();
    let (board_ms, board_p) = timed(|| board(&rows));
    let gaps: Vec<Row> = rows
        .iter()
        .filter(|row| row.block % 50 != row.treatment || row.block >= 20 * row.treatment)
        .copied()
        .collect();
    let (ragged_ms, _) = timed(|| board_of(&gaps, Method::MinP));
    let (exact_ms, exact_p) = timed(|| exact(&family));
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    println!(
        "threads {threads}, {} rows, median of {RUNS} runs",
        rows.len()
    );
    report("board", board_ms, BOARD_TARGET_MS);
    report("ragged", ragged_ms, BOARD_TARGET_MS);
    report("exact", exact_ms, EXACT_TARGET_MS);
    let Ok(python) = std::env::var("ASSIZE_BENCH_PYTHON") else {
        println!("SKIPPED: NumPy is not compared; set ASSIZE_BENCH_PYTHON to a Python that has it");
        return;
    };
    let numpy = numpy(&python, &rows, &family);
    println!("NumPy {}, SciPy {}", numpy["numpy"], numpy["scipy"]);
    compare("board", board_ms, &board_p, &numpy["board"]);
    compare("exact", exact_ms, &exact_p, &numpy["exact"]);
}

/// 24,000 cells with 42 rows each, less one row in 126.
fn board_rows() -> Vec<Row> {
    let model = BlockModel {
        treatment_effects: (0..TREATMENTS)
            .map(|treatment| 0.002 * treatment as f64)
            .collect(),
        blocks: BLOCKS,
        replicates: 42,
        block_sd: 1.0,
        treatment_by_block_sd: 0.5,
        replicate_sd: 1.7,
    };
    let rows = model.rows(1).into_iter().enumerate();
    rows.filter(|(i, _)| i % 126 != 0)
        .map(|(_, row)| row)
        .collect()
}

fn exact_family() -> Vec<Vec<Option<f64>>> {
    let model = BlockModel {
        treatment_effects: (0..EXACT_TREATMENTS)
            .map(|treatment| 0.02 * treatment as f64)
            .collect(),
        blocks: EXACT_BLOCKS,
        replicates: 5,
        block_sd: 1.0,
        treatment_by_block_sd: 0.5,
        replicate_sd: 1.7,
    };
    let table = model.table(2).unwrap();
    challengers(&table)
}

fn challengers(table: &Table) -> Vec<Vec<Option<f64>>> {
    let incumbent = table.treatment_means(0);
    (1..table.treatments())
        .map(|treatment| differences(&table.treatment_means(treatment), &incumbent))
        .collect()
}

/// The whole board; returns the t tests' p values, which `NumPy` must reproduce.
fn board(rows: &[Row]) -> Vec<f64> {
    board_of(rows, Method::MaxT)
}

fn board_of(rows: &[Row], method: Method) -> Vec<f64> {
    let table = Table::from_rows(TREATMENTS, BLOCKS, rows).unwrap();
    let scores = (0..TREATMENTS)
        .map(|treatment| macro_score(&table.treatment_means(treatment), 0.95).unwrap());
    std::hint::black_box(scores.collect::<Vec<_>>());
    let incumbent = table.treatment_means(0);
    let compared = (1..TREATMENTS)
        .map(|treatment| pair(&table.treatment_means(treatment), &incumbent).unwrap());
    let p = compared.map(|pairing| pairing.compare(0.95).unwrap().p_greater.unwrap());
    let p = p.collect();
    let draws = Draws::default();
    let family = family_tests(&challengers(&table), Alternative::Greater, draws).unwrap();
    assert_eq!(family.method, method);
    std::hint::black_box(family);
    std::hint::black_box(probability_of_best_drawn(&table.means(), draws).unwrap());
    p
}

/// The exact test; returns adjusted p values.
fn exact(family: &[Vec<Option<f64>>]) -> Vec<f64> {
    let result = max_t(family, Alternative::Greater, Draws::default()).unwrap();
    assert!(result.is_exact);
    result.tests.iter().map(|t| t.unwrap().p_adjusted).collect()
}

fn timed<T>(work: impl Fn() -> T) -> (f64, T) {
    let mut result = work();
    let mut times_ms: Vec<f64> = (0..RUNS)
        .map(|_| {
            let start = Instant::now();
            result = work();
            start.elapsed().as_secs_f64() * 1e3
        })
        .collect();
    times_ms.sort_by(f64::total_cmp);
    (times_ms[RUNS / 2], result)
}

fn report(name: &str, found_ms: f64, target_ms: f64) {
    let verdict = if found_ms <= target_ms {
        "met"
    } else {
        "MISSED"
    };
    println!("{name}: {found_ms:.1} ms (target {target_ms} ms, {verdict})");
}

fn numpy(python: &str, rows: &[Row], family: &[Vec<Option<f64>>]) -> Value {
    let folder = std::env::temp_dir().join(format!("assize-stats-bench-{}", std::process::id()));
    fs::create_dir_all(&folder).unwrap();
    let write = |name: &str, bytes: Vec<u8>| fs::write(folder.join(name), bytes).unwrap();
    let index = |i: usize| i64::try_from(i).unwrap().to_le_bytes();
    write(
        "treatment.i64",
        rows.iter().flat_map(|row| index(row.treatment)).collect(),
    );
    write(
        "block.i64",
        rows.iter().flat_map(|row| index(row.block)).collect(),
    );
    write(
        "value.f64",
        rows.iter()
            .flat_map(|row| row.value.to_le_bytes())
            .collect(),
    );
    let flat = family.iter().flatten().map(|d| d.unwrap());
    write("family.f64", flat.flat_map(f64::to_le_bytes).collect());
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("benches/numpy_baseline.py");
    let output = Command::new(python)
        .arg(script)
        .arg(&folder)
        .args([TREATMENTS, BLOCKS, EXACT_BLOCKS, RUNS].map(|n| n.to_string()))
        .output()
        .unwrap();
    fs::remove_dir_all(&folder).unwrap();
    assert!(
        output.status.success(),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
    serde_json::from_slice(&output.stdout).unwrap()
}

fn compare(name: &str, own_ms: f64, own_p: &[f64], numpy: &Value) {
    let numpy_ms = numpy["ms"].as_f64().unwrap();
    let numpy_p = numpy["p"]
        .as_array()
        .unwrap()
        .iter()
        .map(|p| p.as_f64().unwrap());
    assert_eq!(own_p.len(), numpy_p.len());
    let apart = own_p
        .iter()
        .zip(numpy_p)
        .map(|(own, numpy)| (own - numpy).abs())
        .fold(0.0, f64::max);
    assert!(apart < 1e-9, "{name}: p values differ by {apart}");
    let ratio = numpy_ms / own_ms;
    println!(
        "{name}: NumPy {numpy_ms:.1} ms, ours {own_ms:.1} ms, ratio {ratio:.1}; same p values"
    );
}

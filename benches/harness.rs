//! Measures the release binary from outside, with scripted models.
//!
//! | figure | target | baseline in the same run |
//! |---|---|---|
//! | cells/s of `collect`, logging complete | ≥ 5,000 | Python's sqlite3 inserting one row of the same bytes a cell |
//! | peak memory at 1k and at 100k cells | flat, ≤ 150 MB | the smaller grid |
//! | `compare` over 100k judged candidates | ≤ 300 ms | Python reading and averaging the same verdict files |
//! | `judge export` and `judge apply` of 100k cases | ≤ 3 s each | Python parsing the same file |
//! | their peak memory at 10k and at 100k cases | flat | the smaller file |
//! | start to `--help` | ≤ 20 ms | `/bin/true` |
//!
//! Run with `make bench`. `ASSIZE_BENCH_QUICK=1` does a tenth of the work.

#![expect(
    clippy::print_stdout,
    clippy::unwrap_used,
    reason = "a benchmark prints, and fails by panicking"
)]

use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::{Value, json};

const BINARY: &str = env!("CARGO_BIN_EXE_assize");

fn main() {
    let scale = if std::env::var_os("ASSIZE_BENCH_QUICK").is_some() {
        10
    } else {
        1
    };
    let folder = tempfile::tempdir().unwrap();
    let here = folder.path();
    write_task(here, 1000);
    write_script(here, 50);
    start_up();
    collect_speed(here, scale);
    memory(here, scale);
    judge_file(here, 10 * scale);
    judge_file(here, scale);
    compare_speed(here);
}

/// Runs the binary; answers seconds and peak memory in MB.
fn run(here: &Path, args: &[&str]) -> (f64, f64) {
    let started = Instant::now();
    let mut child = Command::new(BINARY)
        .args(args)
        .current_dir(here)
        .env("ASSIZE_CACHE_DIR", here.join("cache"))
        .env_remove("MLFLOW_TRACKING_URI")
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let status_file = format!("/proc/{}/status", child.id());
    let mut peak_mb: f64 = 0.0;
    loop {
        if let Ok(text) = std::fs::read_to_string(&status_file) {
            let line = text.lines().find_map(|line| line.strip_prefix("VmHWM:"));
            let kb = line.and_then(|line| {
                line.trim()
                    .trim_end_matches(" kB")
                    .trim()
                    .parse::<f64>()
                    .ok()
            });
            peak_mb = peak_mb.max(kb.unwrap_or(0.0) / 1024.0);
        }
        if let Some(status) = child.try_wait().unwrap() {
            assert!(
                status.success(),
                "assize {} ended with {status}",
                args.join(" ")
            );
            return (started.elapsed().as_secs_f64(), peak_mb);
        }
        std::thread::sleep(Duration::from_millis(1));
    }
}

fn python(here: &Path, code: &str) -> f64 {
    let started = Instant::now();
    let status = Command::new("python3")
        .args(["-c", code])
        .current_dir(here)
        .status();
    assert!(
        status.is_ok_and(|status| status.success()),
        "the Python baseline failed"
    );
    started.elapsed().as_secs_f64()
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

fn start_up() {
    let time = |program: &str, args: &[&str]| {
        let once = || {
            let started = Instant::now();
            Command::new(program)
                .args(args)
                .stdout(Stdio::null())
                .status()
                .unwrap();
            started.elapsed().as_secs_f64() * 1e3
        };
        median((0..21).map(|_| once()).collect())
    };
    let (ours, nothing) = (time(BINARY, &["--help"]), time("/bin/true", &[]));
    println!(
        "start to --help: {ours:.1} ms (target ≤ 20); /bin/true {nothing:.1} ms, ratio {:.1}",
        ours / nothing
    );
}

fn grid(models: usize) -> String {
    (0..models)
        .map(|n| format!("scripted:m{n}"))
        .collect::<Vec<_>>()
        .join(",")
}

fn collect_args<'a>(models: &'a str, experiment: &'a str, scenarios: &'a str) -> Vec<&'a str> {
    vec![
        "collect",
        "--task",
        "task",
        "--models",
        models,
        "--script",
        "script.json",
        "--experiment",
        experiment,
        "--n-scenarios",
        scenarios,
        "-j",
        "2",
    ]
}

fn collect_speed(here: &Path, scale: usize) {
    let cells = 20_000 / scale;
    let models = grid(10 / scale.min(10));
    let seconds: Vec<f64> = (0..3)
        .map(|round| {
            let _ = std::fs::remove_dir_all(here.join(".assize"));
            run(
                here,
                &collect_args(&models, &format!("speed-{round}"), "1000"),
            )
            .0
        })
        .collect();
    let ours = cells as f64 / median(seconds);
    let bytes = std::fs::read(here.join(".assize/assize.db")).map_or(0, |file| file.len()) / cells;
    let code = format!(
        "import sqlite3\nc = sqlite3.connect('base.db', isolation_level=None)\nc.execute('PRAGMA journal_mode=WAL')\n\
         c.execute('PRAGMA synchronous=NORMAL')\nc.execute('CREATE TABLE IF NOT EXISTS t (k TEXT PRIMARY KEY, v BLOB)')\n\
         v = b'x' * {bytes}\n\
         for start in range(0, {cells}, 128):\n    c.execute('BEGIN')\n    \
         c.executemany('INSERT OR REPLACE INTO t VALUES (?, ?)', ((f'{{i:064d}}', v) for i in range(start, min(start + 128, {cells}))))\n    c.execute('COMMIT')\n"
    );
    let base = cells as f64 / python(here, &code);
    println!(
        "collect: {ours:.0} cells/s of 5 candidates, {bytes} bytes each (target ≥ 5,000); Python sqlite3, one row of the \
         same bytes a cell: {base:.0}/s, ratio {:.2}",
        ours / base
    );
}

fn memory(here: &Path, scale: usize) {
    let mut peaks = Vec::new();
    for (models, scenarios) in [(1, "500"), (50 / scale, "1000")] {
        let _ = std::fs::remove_dir_all(here.join(".assize"));
        let models_list = grid(models);
        let (seconds, peak_mb) = run(here, &collect_args(&models_list, "memory", scenarios));
        let cells = models * 2 * scenarios.parse::<usize>().unwrap();
        println!(
            "memory: {cells} cells, peak {peak_mb:.0} MB ({:.0} cells/s)",
            cells as f64 / seconds
        );
        peaks.push(peak_mb);
    }
    println!(
        "memory: ratio of the large grid to the small {:.2} (target: flat, ≤ 150 MB)",
        peaks[1] / peaks[0]
    );
}

/// Exports, fills in and applies a file of a hundred thousand cases, or a part of that.
fn judge_file(here: &Path, scale: usize) {
    let _ = std::fs::remove_dir_all(here.join(".assize"));
    let scenarios = (1000 / scale).to_string();
    run(here, &collect_args(&grid(10), "board", &scenarios));
    let line = "judge export --experiment board --out judge.json";
    let words: Vec<&str> = line.split(' ').collect();
    let (export, export_mb) = run(here, &words);
    let mut file: Value =
        serde_json::from_str(&std::fs::read_to_string(here.join("judge.json")).unwrap()).unwrap();
    let cases = file["cases"].as_array_mut().unwrap();
    for (n, case) in cases.iter_mut().enumerate() {
        case["scores"]["worth"] = json!(n * 7 % 3 + 1);
        case["rationale"] =
            json!("It names the open task and the hour, and could say what to do first.");
    }
    let count = cases.len();
    std::fs::write(here.join("judge.json"), file.to_string()).unwrap();
    drop(file);
    let line = "judge apply judge.json --judge-kind human";
    let words: Vec<&str> = line.split(' ').collect();
    let (apply, apply_mb) = run(here, &words);
    let parse = python(here, "import json\njson.load(open('judge.json'))\n");
    println!(
        "judge file: {count} cases exported in {export:.2} s, peak {export_mb:.0} MB; applied in {apply:.2} s, peak \
         {apply_mb:.0} MB (targets ≤ 3 s at 100k, memory flat); Python parsing the file: {parse:.2} s"
    );
}

fn compare_speed(here: &Path) {
    let once = || {
        run(
            here,
            &["compare", "--experiment", "board", "--format", "json"],
        )
    };
    let runs: Vec<(f64, f64)> = (0..5).map(|_| once()).collect();
    let ours = median(runs.iter().map(|it| it.0).collect()) * 1e3;
    let base = here.join("board.jsonl");
    let export = [
        "runs",
        "export",
        "--experiment",
        "board",
        "-o",
        "board.jsonl",
    ];
    run(here, &export);
    assert!(base.exists());
    let code = "import json, collections\n\
                sums = collections.defaultdict(lambda: [0.0, 0])\n\
                seen = set()\n\
                for line in open('board.jsonl'):\n    r = json.loads(line)\n    if r['run_id'] in seen: continue\n    seen.add(r['run_id'])\n    \
                for f in r['verdicts']:\n        for v in f['verdicts']:\n            s = sums[r['params']['model'], r['params']['prompt']]; s[0] += v['composite']; s[1] += 1\n\
                print(len(sums), 'pairs averaged by Python')\n";
    let baseline = python(here, code) * 1e3;
    println!(
        "compare: the judged candidates in {ours:.0} ms with tests and intervals (target ≤ 300); Python averaging the \
         exported verdicts: {baseline:.0} ms, ratio {:.2}",
        baseline / ours
    );
}

fn write_task(here: &Path, scenarios: usize) {
    let write = |name: &str, text: &str| {
        let path = here.join(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, text).unwrap();
    };
    write(
        "task/task.toml",
        "name = \"bench\"\nscenarios = \"scenarios.jsonl\"\n[[checks]]\nflag = \"ok\"\nmax_words = 40\n",
    );
    let anchors = "1 = \"no\"\n2 = \"so so\"\n3 = \"yes\"\n";
    write(
        "task/rubric.md",
        &format!(
            "+++\nid = \"bench-v1\"\ncomposite = \"worth + ok\"\n[[criteria]]\nname = \"worth\"\nmin = 1\nmax = 3\n\
         [criteria.anchors]\n{anchors}[[flags]]\nname = \"ok\"\n+++\n{}\n",
            "A level of the scale, explained with an example as a real rubric does. ".repeat(100),
        ),
    );
    let prompt = "You help a person through the day. Give one short tip.\n".repeat(8);
    write(
        "task/prompts/p1.md",
        &format!("{prompt}{{{{ persona }}}}: {{{{ topic }}}}\n"),
    );
    write(
        "task/prompts/p2.md",
        &format!("{prompt}Facts: {{{{ persona }}}}, {{{{ topic }}}}\n"),
    );
    let lines: Vec<String> = (0..scenarios)
        .map(|n| json!({"id": format!("s{n}"), "persona": "nurse", "slot": "early", "topic": format!("topic {n}"),
                        "tasks": ["call the ward", "pay the rent", "buy bread"]}).to_string())
        .collect();
    write("task/scenarios.jsonl", &lines.join("\n"));
}

fn write_script(here: &Path, models: usize) {
    let texts: Vec<String> = (0..5)
        .map(|n| {
            format!("Call the ward before seven to swap shift {n}; the rest of the list can wait.")
        })
        .collect();
    let entries: serde_json::Map<String, Value> = (0..models)
        .map(|n| {
            let responses = json!([{"prompt": "*", "scenario": "*", "texts": texts}]);
            (
                format!("m{n}"),
                json!({"parameter_count": 1_000_000, "responses": responses}),
            )
        })
        .collect();
    std::fs::write(
        here.join("script.json"),
        json!({ "models": entries }).to_string(),
    )
    .unwrap();
}

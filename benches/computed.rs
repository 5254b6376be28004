//! Computed scores a second inside a whole `collect`, beside promptfoo's own assertions.
//!
//! | figure | target | baseline in the same run |
//! |---|---|---|
//! | computed scores/s of `collect`, from the command's start to its end | ≥ 100,000 | promptfoo's `runAssertion` on the same answers and the same kinds of assertion |
//! | the same grid under a rubric that computes nothing | – | itself |
//!
//! What is counted: cells × candidates × computed criteria, over the wall time of the command. In that
//! time every cell is also generated (by a scripted model that answers at once), recorded with its
//! candidates, verdicts, metrics and tags, and committed. promptfoo is measured without its command
//! line, its database and its providers: only the function that decides an assertion, called in a loop
//! in one process.
//!
//! promptfoo comes from npm, in the version and the folder that the tests use too. Without npm the
//! baseline is skipped, and the output says so.

#![expect(
    clippy::print_stdout,
    clippy::unwrap_used,
    reason = "a benchmark prints, and fails by panicking"
)]

use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Instant;

use serde_json::json;

const BINARY: &str = env!("CARGO_BIN_EXE_assize");
/// As in tests/cli/promptfoo.rs.
const PROMPTFOO: &str = "promptfoo@0.121.20";
const CANDIDATES: usize = 5;
/// Name and rule of every computed criterion.
const CRITERIA: [(&str, &str); 8] = [
    ("label", "json_field = \"label\"\nequals = \"{{ label }}\""),
    (
        "known",
        "json_field = \"label\"\none_of = [\"billing\", \"login\", \"bug\"]",
    ),
    ("words", "contains = \"{{ label }}\""),
    ("shape", "matches = '\"total\":\\s*[0-9.]+'"),
    (
        "total",
        "json_field = \"total\"\nnumber = \"{{ total }}\"\ntolerance = 0.01",
    ),
    ("tags", "json_field = \"tags\"\nset_f1 = \"{{ tags }}\""),
    ("note", "json_field = \"note\"\nsimilarity = \"{{ note }}\""),
    (
        "schema",
        "json_schema = { type = \"object\", required = [\"label\", \"total\"] }",
    ),
];

fn main() {
    let scale = if std::env::var_os("ASSIZE_BENCH_QUICK").is_some() {
        10
    } else {
        1
    };
    let folder = tempfile::tempdir().unwrap();
    let here = folder.path();
    let scenarios = 1_000 / scale;
    write_files(here, scenarios);
    let models = 10;
    let cells = scenarios * models;
    let scores = cells * CANDIDATES * CRITERIA.len();
    let times = |task: &str| {
        let once = |round: usize| collect(here, task, models, &format!("{task}-{round}"), cells);
        median((0..3).map(once).collect())
    };
    let (computed, plain) = (times("computed"), times("plain"));
    println!(
        "computed scores in collect: {:.0}/s (target ≥ 100,000): {cells} cells × {CANDIDATES} candidates × {} \
         criteria in {computed:.2} s, {:.0} cells/s; the same grid without computed criteria {plain:.2} s, {:.0} cells/s",
        scores as f64 / computed,
        CRITERIA.len(),
        cells as f64 / computed,
        cells as f64 / plain,
    );
    match promptfoo(here) {
        Ok((ours, theirs)) => println!(
            "promptfoo's runAssertion, in a loop in one process: {theirs:.0}/s over {ours} assertions; collect is \
             {:.1} times as fast with generating and recording included",
            scores as f64 / computed / theirs
        ),
        Err(why) => println!("SKIPPED promptfoo's assertions: {why}"),
    }
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

/// Collects into a new experiment; answers the seconds.
fn collect(here: &Path, task: &str, models: usize, experiment: &str, cells: usize) -> f64 {
    let models: Vec<String> = (0..models).map(|n| format!("scripted:m{n}")).collect();
    let started = Instant::now();
    let output = Command::new(BINARY)
        .args([
            "collect",
            "--json",
            "--quiet",
            "--task",
            task,
            "--script",
            "script.json",
        ])
        .args([
            "--models",
            &models.join(","),
            "--experiment",
            experiment,
            "-j",
            "2",
        ])
        .args(["--n-tips", &CANDIDATES.to_string()])
        .current_dir(here)
        .env("ASSIZE_CACHE_DIR", here.join("cache"))
        .env_remove("MLFLOW_TRACKING_URI")
        .stderr(Stdio::inherit())
        .output()
        .unwrap();
    let seconds = started.elapsed().as_secs_f64();
    assert!(
        output.status.success(),
        "collect ended with {}",
        output.status
    );
    let text = String::from_utf8(output.stdout).unwrap();
    let summary: serde_json::Value = serde_json::from_str(text.lines().last().unwrap()).unwrap();
    assert_eq!(summary["collected"], cells, "{summary}");
    seconds
}

fn answer(n: usize) -> String {
    let label = ["billing", "login", "bug"][n % 3];
    json!({"label": label, "total": n as f64 + 0.5, "tags": ["a", "b"], "note": "the card was charged twice"})
        .to_string()
}

fn write_files(here: &Path, scenarios: usize) {
    let rules: String = CRITERIA
        .iter()
        .fold(String::new(), |mut text, (name, rule)| {
            let _ = write!(
                text,
                "[[criteria]]\nname = \"{name}\"\n[criteria.computed]\n{rule}\n"
            );
            text
        });
    let sum: Vec<&str> = CRITERIA.iter().map(|(name, _)| *name).collect();
    let computed = format!("composite = \"{}\"\n{rules}", sum.join(" + "));
    let plain = "composite = \"tone\"\n[[criteria]]\nname = \"tone\"\nmin = 0\nmax = 1\n[criteria.anchors]\n0 = \"no\"\n1 = \"yes\"\n";
    for (name, criteria) in [("computed", computed.as_str()), ("plain", plain)] {
        let task = here.join(name);
        std::fs::create_dir_all(task.join("prompts")).unwrap();
        let head =
            format!("name = \"{name}\"\nscenarios = \"s.jsonl\"\n[output]\nformat = \"json\"\n");
        std::fs::write(task.join("task.toml"), head).unwrap();
        let rubric = format!("+++\nid = \"{name}-v1\"\n{criteria}+++\nProse.\n");
        std::fs::write(task.join("rubric.md"), rubric).unwrap();
        std::fs::write(task.join("prompts/v1.md"), "Sort {{ ask }}\n").unwrap();
        let lines: String = (0..scenarios).fold(String::new(), |mut text, n| {
            let line = json!({"id": format!("s{n}"), "ask": format!("ticket {n}"), "label": "billing",
                              "total": 3.5, "tags": ["a", "c"], "note": "the card was charged two times"});
            let _ = writeln!(text, "{line}");
            text
        });
        std::fs::write(task.join("s.jsonl"), lines).unwrap();
    }
    let texts: Vec<String> = (0..CANDIDATES).map(answer).collect();
    let models: serde_json::Map<_, _> = (0..10)
        .map(|n| {
            let response = json!({"prompt": "*", "scenario": "*", "texts": texts});
            let model = json!({"parameter_count": 500_000_000, "responses": [response]});
            (format!("m{n}"), model)
        })
        .collect();
    std::fs::write(
        here.join("script.json"),
        json!({"models": models}).to_string(),
    )
    .unwrap();
}

/// The baseline: assertions of the same kinds on the same answers, as promptfoo decides them.
const BASELINE: &str = "
const promptfoo = require('promptfoo');
const { runAssertion } = (promptfoo.default || promptfoo).assertions;
const answers = ANSWERS;
const kinds = [
  { type: 'javascript', value: \"JSON.parse(output).label === 'billing'\" },
  { type: 'contains-any', value: ['billing', 'login', 'bug'] },
  { type: 'icontains', value: 'billing' },
  { type: 'regex', value: '\"total\":\\\\s*[0-9.]+' },
  { type: 'javascript', value: 'Math.abs(JSON.parse(output).total - 3.5) <= 0.01' },
  { type: 'contains-all', value: ['a', 'c'] },
  { type: 'levenshtein', threshold: 100, value: 'the card was charged two times' },
  { type: 'is-json', value: { type: 'object', required: ['label', 'total'] } },
];
(async () => {
  const once = async (n) => {
    const output = answers[n % answers.length];
    for (const assertion of kinds) {
      await runAssertion({ prompt: 'Sort', provider: undefined, assertion, test: { vars: {} },
                           providerResponse: { output }, output, vars: {} });
    }
  };
  for (let n = 0; n < 50; n++) await once(n);
  const rounds = 2000;
  const started = process.hrtime.bigint();
  for (let n = 0; n < rounds; n++) await once(n);
  const seconds = Number(process.hrtime.bigint() - started) / 1e9;
  console.log('RESULT ' + rounds * kinds.length + ' ' + rounds * kinds.length / seconds);
  process.exit(0);
})().catch((error) => { console.error(error); process.exit(1); });
";

/// How many assertions were made, and how many a second.
fn promptfoo(here: &Path) -> Result<(u64, f64), String> {
    let folder = promptfoo_folder()?;
    let answers: Vec<String> = (0..CANDIDATES).map(answer).collect();
    let program = BASELINE.replace("ANSWERS", &json!(answers).to_string());
    std::fs::write(folder.join("assize-baseline.js"), program)
        .map_err(|error| error.to_string())?;
    let output = Command::new("node")
        .arg("assize-baseline.js")
        .current_dir(&folder)
        .env("PROMPTFOO_DISABLE_TELEMETRY", "1")
        .env("PROMPTFOO_DISABLE_UPDATE", "1")
        .env("PROMPTFOO_CONFIG_DIR", here.join("promptfoo"))
        .output()
        .map_err(|error| format!("node cannot be started: {error}"))?;
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let line = text.lines().find_map(|line| line.strip_prefix("RESULT "));
    let mut words = line.unwrap_or_default().split(' ');
    let count = words.next().and_then(|it| it.parse().ok());
    let speed = words.next().and_then(|it| it.parse().ok());
    count.zip(speed).ok_or_else(|| {
        let errors = String::from_utf8_lossy(&output.stderr);
        let start: String = errors.chars().take(400).collect();
        format!("its assertions could not be run: {start}")
    })
}

/// Where promptfoo is installed; installs it where it is not.
fn promptfoo_folder() -> Result<PathBuf, String> {
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("scripts/node-env.sh");
    let made = Command::new(script)
        .args(["promptfoo", PROMPTFOO])
        .stderr(Stdio::piped())
        .output()
        .map_err(|error| error.to_string())?;
    if !made.status.success() {
        return Err(String::from_utf8_lossy(&made.stderr).trim().to_owned());
    }
    Ok(PathBuf::from(String::from_utf8_lossy(&made.stdout).trim()))
}

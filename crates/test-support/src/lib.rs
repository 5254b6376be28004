//! What the end-to-end tests share: the real binary in a scratch folder, servers that end with
//! their test, and stand-ins for hosts that cannot be had everywhere.
//!
//! Every test has a folder, a cache and a tracking store of its own, and a clean environment,
//! so that nothing of the machine leaks in and tests can run side by side.
//!
//! Nothing here depends on the product's crates: a change to them does not compile this again,
//! and their own tests can use it.

#![expect(
    clippy::panic,
    clippy::missing_panics_doc,
    clippy::print_stderr,
    clippy::needless_pass_by_value,
    reason = "tests fail by panicking, and print what they skip"
)]

use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::sync::{LazyLock, OnceLock};

use serde_json::{Value, json};

#[cfg(unix)]
pub mod airflow;
pub mod browser;
pub mod jobs;
pub mod limits;
pub mod litellm;
pub mod mcp;
#[cfg(unix)]
pub mod mlflow;
pub mod network;
pub mod ollama_stand_in;
pub mod openai_stand_in;
#[cfg(unix)]
pub mod postgres;
pub mod promotion_task;
pub mod random;
pub mod running;
pub mod server;

/// The root of the repository, by the folder of the package that Cargo tests. What the compiler knew
/// is not asked first: one target directory may serve several checkouts.
pub fn root() -> &'static Path {
    static ROOT: LazyLock<PathBuf> = LazyLock::new(|| {
        let package = std::env::var_os("CARGO_MANIFEST_DIR");
        let package = package.unwrap_or_else(|| env!("CARGO_MANIFEST_DIR").into());
        let mut folders = Path::new(&package).ancestors();
        let root = folders.find(|it| it.join("Cargo.lock").is_file());
        root.expect("a folder with Cargo.lock").to_owned()
    });
    &ROOT
}

/// The path of the `assize` binary under test.
///
/// Cargo builds it before the integration tests of its package and names it in the environment.
/// Where a test binary is started by hand it is the one beside the folder of test binaries.
pub fn binary() -> &'static str {
    static BINARY: OnceLock<String> = OnceLock::new();
    BINARY.get_or_init(|| {
        std::env::var("CARGO_BIN_EXE_assize").unwrap_or_else(|_| {
            let test = std::env::current_exe().expect("the path of this test binary");
            let profile = test.ancestors().nth(2).expect("target/PROFILE/deps/TEST");
            let binary = profile.join(format!("assize{}", std::env::consts::EXE_SUFFIX));
            assert!(binary.exists(), "{} is not built", binary.display());
            binary.to_str().expect("a path in UTF-8").to_owned()
        })
    })
}

/// A scratch folder with the binary beside it.
#[derive(Debug)]
pub struct Scratch {
    folder: tempfile::TempDir,
}

impl Default for Scratch {
    fn default() -> Self {
        Self::new()
    }
}

impl Scratch {
    pub fn new() -> Self {
        Self {
            folder: tempfile::tempdir().expect("a scratch folder"),
        }
    }

    pub fn path(&self) -> &Path {
        self.folder.path()
    }

    pub fn file(&self, name: &str) -> PathBuf {
        self.path().join(name)
    }

    pub fn write(&self, name: &str, text: &str) {
        let path = self.file(name);
        std::fs::create_dir_all(path.parent().expect("a parent")).expect("folders");
        std::fs::write(path, text).expect("a scratch file");
    }

    pub fn read(&self, name: &str) -> String {
        std::fs::read_to_string(self.file(name)).unwrap_or_else(|error| panic!("{name}: {error}"))
    }

    pub fn read_json(&self, name: &str) -> Value {
        serde_json::from_str(&self.read(name)).unwrap_or_else(|error| panic!("{name}: {error}"))
    }

    /// The binary, ready to run here.
    pub fn command(&self, args: impl Args) -> Command {
        let mut command = Command::new(binary());
        command
            .args(args.words())
            .current_dir(self.path())
            .env_clear()
            .env("PATH", std::env::var_os("PATH").unwrap_or_default())
            .env("HOME", self.path())
            .env("USER", "tester")
            .env("ASSIZE_CACHE_DIR", self.file("cache"))
            .stdin(Stdio::null());
        command
    }

    /// Runs the binary to its end.
    pub fn run(&self, args: impl Args) -> Outcome {
        Outcome::of(&self.command(args).output().expect("the binary runs"))
    }

    /// Runs it and expects success.
    pub fn ok(&self, args: impl Args) -> Outcome {
        self.fails(0, args)
    }

    /// Runs it and expects this exit code.
    pub fn fails(&self, code: i32, args: impl Args) -> Outcome {
        let words = args.words();
        let outcome = self.run(&words[..]);
        assert_eq!(outcome.code, code, "assize {}\n{outcome}", words.join(" "));
        outcome
    }

    /// Exports what is pending to a judge file, without calibration cases.
    pub fn export(&self, experiment: &str, file: &str) -> Value {
        let line = format!("judge export --experiment {experiment} --out {file} --no-anchors");
        self.ok(line.as_str());
        self.read_json(file)
    }

    /// Exports what is pending, lets `score` fill in every case, and applies the file with these
    /// words after its name.
    pub fn judge(
        &self,
        experiment: &str,
        file: &str,
        words: &str,
        mut score: impl FnMut(&mut Value),
    ) -> Outcome {
        let mut content = self.export(experiment, file);
        for case in content["cases"].as_array_mut().expect("cases") {
            score(case);
        }
        self.write(file, &content.to_string());
        self.ok(&format!("judge apply {file} {words}"))
    }

    /// A scratch folder with an experiment `e` over a small task without calibration cases,
    /// two candidates a cell, everything pending. One of the texts is wide and hostile.
    pub fn pending(models: &str, prompts: &str, scenarios: usize) -> Self {
        let scratch = Self::new();
        write_small_task(&scratch, scenarios);
        let texts: [(&str, &[&str]); 2] = [
            ("a", &["Walk now.", "\u{6b69}\u{3053}\u{3046}\x1b[2J"]),
            ("b", &["Eat.", "Sleep."]),
        ];
        scratch.write("script.json", &script(&texts));
        scratch.ok(format!(
            "collect --task task --models {models} --prompts {prompts} --n-tips 2 --script script.json --experiment e"
        )
        .as_str());
        scratch
    }

    /// Two models and three prompts on so many scenarios of the built-in task, with so many
    /// candidates each, in the experiment `e`.
    pub fn collected(scenarios: u32, n_tips: u32) -> Self {
        let scratch = Self::new();
        let models = [
            ("a", &["Walk now.", "Rest."][..]),
            ("b", &["Eat.", "Sleep."]),
        ];
        scratch.write("script.json", &script(&models));
        scratch.collect(scenarios, n_tips);
        scratch
    }

    /// The same collection again.
    pub fn collect(&self, scenarios: u32, n_tips: u32) -> Outcome {
        self.ok(format!(
            "collect --models scripted:a,scripted:b --script script.json --experiment e \
             --n-tips {n_tips} --n-scenarios {scenarios} --json"
        )
        .as_str())
    }

    /// The leaderboard.
    pub fn board(&self, experiment: &str) -> Value {
        self.ok(&["compare", "--experiment", experiment, "--json"])
            .json()
    }
}

/// What is typed after `assize`: a line of words, or the words themselves where one has a space.
pub trait Args {
    fn words(&self) -> Vec<&str>;
}

impl Args for &str {
    fn words(&self) -> Vec<&str> {
        self.split_whitespace().collect()
    }
}

impl Args for &String {
    fn words(&self) -> Vec<&str> {
        self.split_whitespace().collect()
    }
}

impl Args for &[&str] {
    fn words(&self) -> Vec<&str> {
        self.to_vec()
    }
}

impl<const N: usize> Args for &[&str; N] {
    fn words(&self) -> Vec<&str> {
        self.to_vec()
    }
}

impl Args for &Vec<&str> {
    fn words(&self) -> Vec<&str> {
        (*self).clone()
    }
}

/// How the binary ended and what it said.
#[derive(Debug)]
pub struct Outcome {
    pub code: i32,
    pub stdout: String,
    pub stderr: String,
}

impl Outcome {
    pub fn of(output: &Output) -> Self {
        Self {
            code: output.status.code().unwrap_or(-1),
            stdout: String::from_utf8_lossy(&output.stdout).into_owned(),
            stderr: String::from_utf8_lossy(&output.stderr).into_owned(),
        }
    }

    pub fn json(&self) -> Value {
        serde_json::from_str(&self.stdout).unwrap_or_else(|error| panic!("{error}\n{self}"))
    }

    pub fn json_lines(&self) -> Vec<Value> {
        self.stdout
            .lines()
            .map(|line| {
                serde_json::from_str(line).unwrap_or_else(|error| panic!("{error}\n{line}"))
            })
            .collect()
    }

    /// The last line of `collect --json`.
    pub fn summary(&self) -> Value {
        let last = self.json_lines().pop().unwrap_or_default();
        assert_eq!(last["event"], "summary", "{self}");
        last
    }
}

impl std::fmt::Display for Outcome {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(
            f,
            "exit {}\n--- stdout\n{}\n--- stderr\n{}",
            self.code, self.stdout, self.stderr
        )
    }
}

/// The words that collect these scripted models into the experiment `e`, with more flags.
pub fn collect(models: &str, more: &str) -> String {
    format!("collect --models {models} --script script.json --experiment e --json {more}")
}

/// The cells of `collect --json`.
pub fn cells(outcome: &Outcome) -> Vec<Value> {
    outcome
        .json_lines()
        .into_iter()
        .filter(|line| line["event"] == "cell")
        .collect()
}

/// What a set-up script prints, or why it cannot.
pub fn set_up(script: &str, words: &[&str]) -> Result<String, String> {
    let output = Command::new("bash")
        .arg(root().join(script))
        .args(words)
        .output()
        .map_err(|error| error.to_string())?;
    if output.status.success() {
        Ok(String::from_utf8_lossy(&output.stdout).trim().to_owned())
    } else {
        Err(String::from_utf8_lossy(&output.stderr).trim().to_owned())
    }
}

/// A Python with MLflow, its client and its server; `None`, with a message, where it cannot be had.
pub fn mlflow_python() -> Option<String> {
    let packages = ["mlflow", "mlflow", "scikit-learn", "Flask-WTF"];
    match set_up("scripts/python-env.sh", &packages) {
        Ok(python) => Some(python),
        Err(reason) => {
            eprintln!("SKIPPED: MLflow cannot be had here: {reason}");
            None
        }
    }
}

/// Runs a Python program of ours, which prints OK at its end where everything passed.
pub fn drive(python: &str, program: &str, words: &[&str]) {
    let output = Command::new(python)
        .arg(root().join(program))
        .args(words)
        .output()
        .expect("python runs");
    let outcome = Outcome::of(&output);
    assert!(
        outcome.code == 0 && outcome.stdout.trim_end().ends_with("OK"),
        "{outcome}"
    );
}

/// A script in which every model answers every cell with these texts.
pub fn script(models: &[(&str, &[&str])]) -> String {
    let models: serde_json::Map<String, Value> = models
        .iter()
        .map(|(name, texts)| {
            let response = json!({"prompt": "*", "scenario": "*", "texts": texts});
            (
                (*name).to_owned(),
                json!({"parameter_count": 500_000_000, "responses": [response]}),
            )
        })
        .collect();
    json!({ "models": models }).to_string()
}

/// A task folder with one criterion and as many scenarios as asked for.
pub fn write_small_task(scratch: &Scratch, scenarios: usize) {
    scratch.write(
        "task/task.toml",
        "name = \"small\"\n\n[[checks]]\nflag = \"ok\"\nnot_contains = [\"bad\"]\n",
    );
    scratch.write(
        "task/rubric.md",
        "+++\nid = \"small-v1\"\ncomposite = \"worth + ok\"\n[[criteria]]\nname = \"worth\"\nmin = 1\nmax = 3\n\
         [criteria.anchors]\n1 = \"no\"\n2 = \"so so\"\n3 = \"yes\"\n[[flags]]\nname = \"ok\"\n+++\nJudge it.\n",
    );
    scratch.write("task/prompts/p1.md", "Say something about {{ topic }}.\n");
    scratch.write("task/prompts/p2.md", "Tell me of {{ topic }}.\n");
    let lines: Vec<String> = (0..scenarios)
        .map(|n| json!({"id": format!("s{n}"), "topic": format!("topic {n}")}).to_string())
        .collect();
    scratch.write("task/scenarios.jsonl", &lines.join("\n"));
    let task = scratch.read("task/task.toml");
    scratch.write(
        "task/task.toml",
        &task.replace("\n\n", "\nscenarios = \"scenarios.jsonl\"\n\n"),
    );
}

/// Gives every criterion of the built-in task this score.
pub fn score_all(case: &mut Value, score: i64) {
    for name in ["relevance", "actionability", "tone"] {
        case["scores"][name] = json!(score);
    }
}

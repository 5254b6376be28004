//! Settings and where they come from: `assize config`, the task as a setting, `.env`.

use assize_test_support::{Outcome, Scratch, script, write_small_task};
use serde_json::{Value, json};

fn with_env(scratch: &Scratch, line: &str, variables: &[(&str, &str)]) -> Outcome {
    let mut command = scratch.command(line);
    command.envs(variables.iter().copied());
    Outcome::of(&command.output().expect("the binary runs"))
}

fn config(scratch: &Scratch, line: &str, variables: &[(&str, &str)]) -> Value {
    let outcome = with_env(scratch, line, variables);
    assert_eq!(outcome.code, 0, "{outcome}");
    outcome.json()
}

#[test]
fn every_setting_is_shown_with_its_origin() {
    let scratch = Scratch::new();
    write_small_task(&scratch, 1);
    let task = scratch.read("task/task.toml");
    scratch.write(
        "task/task.toml",
        &format!("{task}\n[defaults]\ntemperature = 0.3\n"),
    );
    scratch.write(
        "assize.toml",
        "# ours\ntask = \"task\"\nmax_tokens = 64\n\n[gate]\nmargin = 1\n",
    );
    scratch.write(".env", "ASSIZE_SEED=7\n");
    let shown = config(
        &scratch,
        "config --json --n-tips 3",
        &[("ASSIZE_JOBS", "2"), ("MLFLOW_TRACKING_URI", "sqlite:x.db")],
    );
    assert_eq!(
        shown["task"],
        json!({"value": "task", "origin": "assize.toml:2"})
    );
    assert_eq!(
        shown["tracking_uri"],
        json!({"value": "sqlite:x.db", "origin": "MLFLOW_TRACKING_URI"})
    );
    for (key, value, origin, default) in [
        ("n_tips", json!(3), "--n-tips", json!(5)),
        ("jobs", json!(2), "ASSIZE_JOBS", json!(1)),
        ("seed", json!(7), "ASSIZE_SEED in .env", json!(42)),
        ("max_tokens", json!(64), "assize.toml:3", json!(128)),
        ("gate.margin", json!(1.0), "assize.toml:6", Value::Null),
        ("temperature", json!(0.3), "the task's defaults", json!(0.7)),
        ("retries", json!(3), "default", json!(3)),
        ("gate.bias", Value::Null, "default", Value::Null),
    ] {
        let expected = json!({"value": value, "origin": origin, "default": default});
        assert_eq!(shown["settings"][key], expected, "{key}");
    }
    // What is printed for people is a settings file, too.
    let text = scratch.ok("config").stdout;
    let table: toml::Table = text.parse().expect("TOML");
    assert_eq!(table["max_tokens"].as_integer(), Some(64));
    assert!(text.contains("# task: task (assize.toml:2)"), "{text}");
    let line = text.lines().find(|it| it.starts_with("max_tokens"));
    assert!(
        line.is_some_and(|it| it.ends_with("# assize.toml:3")),
        "{text}"
    );
    scratch.write("assize.toml", "n_tips = 0\n");
    scratch.fails(2, "config");
}

#[test]
fn settings_are_shown_without_secrets() {
    let scratch = Scratch::new();
    scratch.write(
        "assize.toml",
        "base_url = \"https://me:s3cret@models.example/v1\"\nollama_url = [\"http://u:s3cret@host:1\"]\n\
         [webhook]\nurl = \"https://hooks.example/services/s3cret\"\nsecret_env = \"HOOK\"\n",
    );
    let variables = [
        ("OPENAI_API_KEY", "s3cret"),
        ("HOOK", "whsec_czNjcmV0czNjcmV0czNjcmV0czNjcmV0"),
        ("MLFLOW_TRACKING_URI", "http://me:s3cret@mlflow:5000"),
    ];
    for line in ["config", "config --json"] {
        let outcome = with_env(&scratch, line, &variables);
        assert_eq!(outcome.code, 0, "{outcome}");
        assert!(!outcome.stdout.contains("s3cret"), "{outcome}");
        assert!(outcome.stdout.contains("https://models.example/v1"));
        assert!(outcome.stdout.contains("https://hooks.example/…"));
    }
}

#[test]
fn the_task_is_a_setting() {
    let scratch = Scratch::new();
    write_small_task(&scratch, 2);
    scratch.write("script.json", &script(&[("a", &["Walk."])]));
    scratch.write("assize.toml", "task = \"task\"\nscript = \"script.json\"\n");
    let collect = "collect --models scripted:a --n-tips 1 --json --experiment";
    let summary = scratch.ok(&format!("{collect} e")).summary();
    assert_eq!(summary["cells"], 4, "two prompts and two scenarios");
    // Every command finds it, also those that name no experiment.
    assert!(scratch.ok("validate").stdout.contains("small is valid"));
    let history = scratch.ok("promote history --json").json();
    assert_eq!(history["task"], "small");
    scratch.ok("judge export --experiment e --out judge.json");

    // The environment wins over the file, and the flag over both.
    let tip = [("ASSIZE_TASK", "tip")];
    assert!(
        with_env(&scratch, "validate", &tip)
            .stdout
            .contains("tip is valid")
    );
    let flag = with_env(&scratch, "validate --task task", &tip);
    assert!(flag.stdout.contains("small is valid"), "{flag}");

    // An experiment has its own task: the setting neither replaces it nor is refused.
    let other = with_env(
        &scratch,
        &format!("{collect} tips --n-scenarios 1 --prompts v1"),
        &tip,
    );
    assert_eq!(other.code, 0, "{other}");
    scratch.ok("judge status --experiment tips");
    scratch.ok("judge export --experiment tips --out tips.json");
    assert_eq!(scratch.read_json("tips.json")["rubric"]["id"], "tip-v1");
    // A collection of the set task into that experiment is refused, as with the default task.
    scratch.fails(2, &format!("{collect} tips"));

    // A copy of the built-in task can be made all the same.
    scratch.ok("init copy");
    scratch.write("assize.toml", "task = 3\n");
    let bad = scratch.fails(2, "validate");
    assert!(bad.stderr.contains("assize.toml:1: task must be"), "{bad}");
}

#[test]
fn an_odd_line_of_the_env_file_is_skipped_and_never_shown() {
    let scratch = Scratch::new();
    scratch.write(
        ".env",
        "OPENAI_API_KEY=sk-live-1\nPASSWORD=my secret pass\n%%% sk-live-2\nASSIZE_N_TIPS=2\n",
    );
    let outcome = scratch.ok("config --json");
    assert_eq!(outcome.json()["settings"]["n_tips"]["value"], 2);
    for line in [2, 3] {
        assert!(
            outcome.stderr.contains(&format!("warning: .env:{line}: ")),
            "{outcome}"
        );
    }
    let all = format!("{}{}", outcome.stdout, outcome.stderr);
    for secret in ["sk-live", "my secret"] {
        assert!(!all.contains(secret), "{outcome}");
    }
    assert_eq!(scratch.ok("config --json --quiet").stderr, "");
}

//! `assize simulate`: policies, personas, files and tracked results.

use assize_test_support::Scratch;
use serde_json::Value;

const SHORT: &str = "simulate --steps 60 --seeds 3";

#[test]
fn a_study_is_printed_written_and_tracked() {
    let scratch = Scratch::new();
    let line = format!("{SHORT} --experiment study -o s.html -o s.svg -o s.csv --json");
    let study = scratch.ok(line.as_str()).json();
    assert_eq!(study["policies"][0]["name"], "egreedy-v1");
    assert_eq!(study["simulations"].as_array().map(Vec::len), Some(5));
    assert_eq!(study["comparisons"].as_array().map(Vec::len), Some(10));
    let personas = study["simulations"][0]["entrants"][0]["personas"]
        .as_array()
        .expect("personas")
        .len();
    assert!(personas >= 8, "{personas}");
    let csv = scratch.read("s.csv");
    assert_eq!(csv.lines().count(), 1 + 5 * 3 * personas, "{csv}");
    let svg = scratch.read("s.svg");
    assert!(svg.starts_with("<svg") && svg.contains("linucb"), "{svg}");
    assert!(!svg.contains("NaN"), "{svg}");
    let html = scratch.read("s.html");
    for words in ["egreedy-v2", "drift", "</html>"] {
        assert!(html.contains(words), "{words}");
    }
    assert!(!html.contains("<script"), "no script");

    let runs = scratch
        .ok("runs list --experiment study --limit 0 --json")
        .json();
    let runs = runs["runs"].as_array().expect("runs").clone();
    assert_eq!(runs.len(), 15);
    let one = &runs[0];
    assert_eq!(one["params"]["policy"], "egreedy-v1", "{one}");
    assert_eq!(one["params"]["variant"], "base", "{one}");
    let tracked = one["metrics"]["expected_reward"].as_f64();
    let reported = &study["simulations"][0]["entrants"][0]["expected_reward"];
    assert_eq!(tracked, reported.as_f64(), "{one}");

    // A simulation is an experiment of its own.
    let again = scratch.fails(2, format!("{SHORT} --experiment study").as_str());
    assert!(again.stderr.contains("--experiment"), "{again}");
}

#[test]
fn the_result_does_not_depend_on_threads_and_fits_a_terminal() {
    let scratch = Scratch::new();
    let run = |more: &str| -> Value {
        let line = format!("{SHORT} --no-track --no-sensitivity --json {more}");
        scratch.ok(line.as_str()).json()
    };
    assert_eq!(run("-j 1"), run("-j 2"));
    assert_ne!(run("-j 1"), run("--seed 2"));
    let table = scratch.ok(format!("{SHORT} --no-track").as_str());
    for line in table.stdout.lines() {
        assert!(line.chars().count() <= 80, "{line}");
    }
    let listed = scratch.ok("experiments list --json").json();
    assert_eq!(listed["experiments"].as_array().map(Vec::len), Some(0));
}

#[test]
fn personas_are_files_and_mistakes_are_named() {
    let scratch = Scratch::new();
    let built_in = scratch.ok("simulate --show-personas").stdout;
    scratch.write("own.toml", &built_in);
    let own = scratch
        .ok(format!("{SHORT} --no-track --no-sensitivity --personas own.toml --json").as_str())
        .json();
    assert_eq!(own["personas"], "own.toml");
    scratch.write("bad.toml", &built_in.replacen("noise", "nose", 1));
    let cases = [
        ("--personas bad.toml", "nose"),
        ("--personas missing.toml", "missing.toml"),
        ("--policies greedy", "egreedy-v1"),
        ("--policies egreedy-v1,egreedy-v1", "same name"),
        ("-o study.pdf", ".html"),
        ("--steps 0", "steps"),
    ];
    for (more, words) in cases {
        let refused = scratch.fails(2, format!("{SHORT} --no-track {more}").as_str());
        assert!(refused.stderr.contains(words), "{more}: {refused}");
    }
}

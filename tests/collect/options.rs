//! Options of `assize collect`: settings from every layer, shards, dry runs, invalid values.

use std::collections::BTreeSet;

use assize_test_support::{Outcome, Scratch, cells, collect, script};
use serde_json::json;

#[test]
fn shards_part_the_grid() {
    let scratch = Scratch::new();
    scratch.write("script.json", &script(&[("a", &["x"]), ("b", &["y"])]));
    for shards in [2, 5] {
        let experiment = format!("shards-{shards}");
        let mut seen = BTreeSet::new();
        let mut total = 0;
        for this in 1..=shards {
            let outcome = scratch.ok(&format!(
                "collect --models scripted:a,scripted:b --script script.json --experiment {experiment} \
                 --json --shard {this}/{shards}"
            ));
            for cell in cells(&outcome) {
                total += 1;
                seen.insert(format!(
                    "{} {} {}",
                    cell["model"], cell["prompt"], cell["scenario"]
                ));
            }
            if shards == 2 {
                let loads = outcome.summary()["model_loads"].clone();
                assert_eq!(
                    loads.as_object().expect("object").len(),
                    1,
                    "whole models stay together"
                );
            }
        }
        assert_eq!((seen.len(), total), (48, 48));
    }
    scratch.fails(2, &collect("scripted:a", "--shard 0/2"));
    scratch.fails(2, &collect("scripted:a", "--shard 3/2"));
}

#[test]
fn a_dry_run_generates_nothing() {
    let scratch = Scratch::new();
    scratch.write("script.json", &script(&[("a", &["x"])]));
    let plan = scratch.ok(&collect("scripted:a", "--dry-run")).json();
    assert_eq!(
        (
            &plan["cells"],
            &plan["missing"],
            &plan["outputs"],
            &plan["loads"]
        ),
        (&json!(24), &json!(24), &json!(120), &json!(1))
    );
    assert!(!scratch.file(".assize").exists(), "nothing is written");
    scratch.ok(&collect("scripted:a", "--n-scenarios 2"));
    let plan = scratch.ok(&collect("scripted:a", "--dry-run")).json();
    assert_eq!((&plan["cells"], &plan["missing"]), (&json!(24), &json!(18)));
    let shown =
        scratch.ok("collect --models scripted:a --script script.json --experiment e --dry-run");
    assert!(
        shown
            .stdout
            .contains("1 model × 3 prompts × 8 scenarios × 5 = 120 outputs"),
        "{shown}"
    );
}

#[test]
fn settings_come_from_file_environment_and_flags() {
    let scratch = Scratch::new();
    scratch.write("script.json", &script(&[("a", &["x"])]));
    scratch.write("assize.toml", "models = [\"scripted:a\"]\nscript = \"script.json\"\nn_tips = 2\nn_scenarios = 1\nprompts = \"v1\"\n");
    let candidates = |command: &mut std::process::Command| {
        let outcome = Outcome::of(&command.output().expect("runs"));
        assert_eq!(outcome.code, 0, "{outcome}");
        let id = cells(&outcome)[0]["run_id"]
            .as_str()
            .expect("id")
            .to_owned();
        scratch.ok(&["runs", "show", &id, "--json"]).json()["candidates"]
            .as_array()
            .expect("list")
            .len()
    };
    assert_eq!(candidates(&mut scratch.command(&["collect", "--json"])), 2);
    assert_eq!(
        candidates(
            scratch
                .command(&["collect", "--json"])
                .env("ASSIZE_N_TIPS", "3")
        ),
        3
    );
    assert_eq!(
        candidates(
            scratch
                .command("collect --json --n-tips 4")
                .env("ASSIZE_N_TIPS", "3")
        ),
        4
    );

    scratch.write("assize.toml", "n_tip = 2\n");
    let unknown = scratch.fails(2, &["collect"]);
    assert!(
        unknown
            .stderr
            .contains("assize.toml:1: there is no setting 'n_tip': did you mean 'n_tips'?"),
        "{unknown}"
    );
    scratch.write("assize.toml", "n_tips = 0\ntemperature = -1\n");
    let bad = scratch.fails(2, &["collect"]);
    assert!(
        bad.stderr.contains("n_tips (from assize.toml:1) is 0")
            && bad
                .stderr
                .contains("temperature (from assize.toml:2) is -1"),
        "{bad}"
    );
    scratch.write("assize.toml", "n_tips = \n");
    let broken = scratch.fails(2, &["collect"]);
    assert!(broken.stderr.contains("assize.toml"), "{broken}");
}

#[test]
fn mistakes_on_the_command_line_are_explained() {
    let scratch = Scratch::new();
    scratch.write("script.json", &script(&[("a", &["x"])]));
    for (args, expected) in [
        (
            collect("scripted:a", "--prompts v9"),
            "has no prompt 'v9': use one of v1, v2-mentor, v3-few-shot",
        ),
        (collect("scripted:a", "--split train"), "--split"),
        (
            collect("scripted:a", "--task nowhere"),
            "there is no task 'nowhere'",
        ),
        (
            collect("scripted:a", "--tracking-uri postgres://u:secret@x"),
            "the tracking URI 'postgres://x' cannot be used: use --tracking-uri sqlite:PATH",
        ),
        (collect("openai:x", ""), "--base-url"),
        (collect("a\u{1}b", ""), "is not a model id"),
    ] {
        let outcome = scratch.fails(2, &args);
        assert!(outcome.stderr.contains(expected), "{args:?}\n{outcome}");
        assert!(outcome.stdout.is_empty(), "{outcome}");
    }
    let missing = scratch.run("collect --models scripted:a --script none.json");
    assert!(
        missing.code != 0 && missing.stderr.contains("none.json"),
        "{missing}"
    );
    let unknown = scratch.run(&collect("scripted:zz", ""));
    assert!(
        unknown.code != 0 && unknown.stderr.contains("zz"),
        "{unknown}"
    );
}

#[test]
fn a_full_disk_or_a_read_only_store_is_a_clear_error() {
    let scratch = Scratch::new();
    scratch.write("script.json", &script(&[("a", &["x"])]));
    scratch.write("not-a-db", "hello, I am a text");
    let outcome = scratch.fails(1, &collect("scripted:a", "--tracking-uri sqlite:not-a-db"));
    assert!(outcome.stderr.contains("not-a-db"), "{outcome}");
    assert_eq!(scratch.read("not-a-db"), "hello, I am a text");
    let outcome = scratch.fails(
        1,
        &collect("scripted:a", "--tracking-uri sqlite:/proc/none/x.db"),
    );
    assert!(outcome.stderr.contains("/proc/none"), "{outcome}");
}

#[test]
fn sqlite_uris_are_read_as_mlflow_reads_them() {
    let scratch = Scratch::new();
    scratch.write("script.json", &script(&[("a", &["fine"])]));
    let line = collect(
        "scripted:a",
        "--prompts v1 --n-scenarios 6 --n-tips 1 --tracking-uri sqlite:///runs.db",
    );
    scratch.ok(&line);
    assert!(scratch.file("runs.db").exists());
    let absolute = format!("sqlite:{}", scratch.file("runs.db").display());
    let listed = scratch
        .ok(&["experiments", "list", "--json", "--tracking-uri", &absolute])
        .json();
    assert_eq!(listed["experiments"][0]["runs"], 6);
}

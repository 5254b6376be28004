//! Stores that cannot be used as usual: wrong addresses, files without write permission, ids that are
//! cut short.

use std::os::unix::fs::PermissionsExt as _;
use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::process::Command;

use assize_test_support::{Outcome, Scratch, binary, score_all};

#[test]
fn an_address_that_cannot_be_used_is_an_error_everywhere() {
    let scratch = Scratch::new();
    for uri in ["://nowhere", "postgres://host/db", "sqlite:"] {
        for line in [
            "experiments list",
            "promote history",
            "runs list --experiment e",
        ] {
            let outcome = scratch.fails(2, &format!("{line} --tracking-uri {uri}"));
            assert!(outcome.stderr.contains("the tracking URI"), "{outcome}");
        }
    }
    // A folder where nothing was collected yet is no error.
    let none = scratch.ok("experiments list --tracking-uri sqlite:none.db");
    assert!(none.stderr.contains("No experiment yet"), "{none}");
}

#[test]
fn sync_names_the_address_that_is_wrong_and_leaves_no_empty_database() {
    let scratch = Scratch::collected(1, 1);
    let here = "sqlite:.assize/assize.db";
    for (from, to, flag) in [
        ("://a", "://a", "--from"),
        (here, "://a", "--to"),
        (here, "http://", "--to"),
    ] {
        let line = format!("sync --from {from} --to {to} --experiment e");
        let outcome = scratch.fails(2, line.as_str());
        assert!(outcome.stderr.contains(flag), "{outcome}");
        assert!(!outcome.stderr.contains("are both"), "{outcome}");
    }
    let line = format!("sync --from {here} --to sqlite:./.assize/assize.db --experiment e");
    let same = scratch.fails(2, line.as_str());
    assert!(same.stderr.contains("the same store"), "{same}");
    let line = format!("sync --from {here} --to sqlite:copy.db --experiment nothing");
    let failed = scratch.fails(2, line.as_str());
    assert!(
        failed.stderr.contains("no experiment 'nothing'"),
        "{failed}"
    );
    let line = "sync --from http://127.0.0.1:9 --to sqlite:copy.db --experiment e";
    scratch.fails(1, line);
    assert!(!scratch.file("copy.db").exists(), "an empty database");
}

/// Runs the binary as somebody who may not write here. Root may write everywhere, so as another user.
fn as_reader(scratch: &Scratch, program: &Path, line: &str) -> Outcome {
    let known = scratch.command(line);
    let mut command = Command::new(program);
    command
        .args(known.get_args())
        .current_dir(known.get_current_dir().expect("a folder"));
    for (name, value) in known.get_envs() {
        match value {
            Some(value) => command.env(name, value),
            None => command.env_remove(name),
        };
    }
    if std::fs::metadata("/root").is_ok_and(|_| is_root()) {
        command.uid(65534).gid(65534);
    }
    Outcome::of(&command.output().expect("the binary runs"))
}

fn is_root() -> bool {
    std::fs::File::open("/etc/shadow").is_ok()
}

fn permit(path: &Path, mode: u32) {
    let mode = std::fs::Permissions::from_mode(mode);
    std::fs::set_permissions(path, mode).expect("permissions");
}

#[test]
fn a_store_without_write_permission_can_be_read() {
    let scratch = Scratch::collected(1, 2);
    scratch.judge("e", "judge.json", "--judge-kind human", |case| {
        score_all(case, 3);
    });
    let whole = scratch.ok("compare --experiment e --json").stdout;
    let id = scratch.ok("runs list --experiment e --json").json()["runs"][0]["run_id"].clone();
    let id = id.as_str().expect("an id").to_owned();
    for entry in std::fs::read_dir(scratch.file(".assize")).expect("a folder") {
        permit(&entry.expect("an entry").path(), 0o444);
    }
    permit(&scratch.file(".assize"), 0o555);
    permit(&scratch.file("script.json"), 0o444);
    permit(scratch.path(), 0o555);
    // The other user may not be allowed to enter the folder of the build.
    let shared = tempfile::tempdir().expect("a folder");
    permit(shared.path(), 0o755);
    let program = shared.path().join("assize");
    std::fs::copy(binary(), &program).expect("a copy");
    let listed = as_reader(&scratch, &program, "experiments list --json");
    if listed.stderr.contains("Permission denied") && listed.stdout.is_empty() {
        eprintln!("SKIPPED: another user cannot run the binary here: {listed}");
        return;
    }
    assert_eq!(listed.code, 0, "{listed}");
    assert_eq!(listed.json()["experiments"][0]["name"], "e");
    for line in [
        "runs list --experiment e".to_owned(),
        format!("runs show {id}"),
        "runs export --experiment e".to_owned(),
        "judge status --experiment e".to_owned(),
        "promote history".to_owned(),
    ] {
        let outcome = as_reader(&scratch, &program, &line);
        assert_eq!(outcome.code, 0, "{line}\n{outcome}");
    }
    assert_eq!(
        as_reader(&scratch, &program, "compare --experiment e --json").stdout,
        whole
    );
    let refused = as_reader(&scratch, &program, &format!("runs delete {id}"));
    assert_eq!(refused.code, 1, "{refused}");
    assert!(refused.stderr.contains("read-only"), "{refused}");
    permit(scratch.path(), 0o755);
    permit(&scratch.file(".assize"), 0o755);
}

#[test]
fn the_start_of_an_id_is_enough_and_several_are_listed() {
    let scratch = Scratch::collected(8, 1);
    let runs = scratch.ok("runs list --experiment e --json").json();
    let ids: Vec<&str> = runs["runs"]
        .as_array()
        .expect("runs")
        .iter()
        .map(|it| it["run_id"].as_str().expect("an id"))
        .collect();
    assert_eq!(ids.len(), 48);
    let with = |start: &str| ids.iter().filter(|id| id.starts_with(start)).count();
    // The shortest start that only this run has.
    let first = ids[0];
    let length = (1..32).find(|length| with(&first[..*length]) == 1);
    let start = &first[..length.expect("an id of its own")];
    let shown = scratch.ok(&format!("runs show {start} --json")).json();
    assert_eq!(shown["run_id"], first, "by {start}");
    // Of 48 runs, some share their first character.
    let digit = (0..16).map(|it| format!("{it:x}")).find(|it| with(it) > 1);
    let digit = digit.expect("two of 48");
    let several = scratch.fails(2, &format!("runs show {digit}"));
    let named = ids.iter().filter(|id| several.stderr.contains(*id)).count();
    assert_eq!(named, with(&digit).min(8), "{several}");
    let short = scratch.fails(2, &format!("runs delete {}", &first[..1]));
    assert!(short.stderr.contains("too short"), "{short}");
}

#[test]
fn an_export_to_a_dash_goes_to_standard_output() {
    let scratch = Scratch::collected(1, 1);
    let plain = scratch.ok("runs export --experiment e").stdout;
    assert_eq!(plain.lines().count(), 6);
    assert_eq!(scratch.ok("runs export --experiment e -o -").stdout, plain);
    assert!(!scratch.file("-").exists());
}

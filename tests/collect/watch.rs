//! `collect --watch` and the cache of answers.

use std::io::{BufRead as _, BufReader};
use std::process::Stdio;
use std::time::Duration;

use assize_test_support::{Scratch, cells};
use serde_json::{Value, json};

/// A copy of the built-in task and a script that answers by what the prompt says.
fn scratch() -> Scratch {
    let scratch = Scratch::new();
    scratch.ok("init task");
    let script = json!({"models": {"m": {"parameter_count": 1, "responses": [
        {"prompt_contains": "second wording", "texts": ["after the edit"]},
        {"prompt": "*", "texts": ["before the edit"]},
    ]}}});
    scratch.write("script.json", &script.to_string());
    scratch.write(
        "task/prompts/v1.md",
        "first wording for {{ persona }}, {{ slot }}\n",
    );
    scratch
}

/// A process that ends with its test.
struct Ended(std::process::Child);

impl Drop for Ended {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[cfg(unix)]
#[test]
#[expect(clippy::too_many_lines, reason = "one story of several edits")]
fn an_edit_shows_what_changed_and_tracks_nothing() {
    let scratch = scratch();
    let mut child = Ended(scratch
        .command("collect --task task --models scripted:m --script script.json --prompts v1,v2-mentor --watch --json")
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("the binary runs"));
    let child = &mut child.0;
    let (sender, lines) = std::sync::mpsc::channel();
    let stdout = child.stdout.take().expect("a pipe");
    std::thread::spawn(move || {
        for line in BufReader::new(stdout).lines().map_while(Result::ok) {
            let _ = sender.send(serde_json::from_str::<Value>(&line).expect("JSON"));
        }
    });
    let next = || {
        lines
            .recv_timeout(Duration::from_mins(1))
            .expect("an output in time")
    };
    let first: Vec<Value> = (0..4).map(|_| next()).collect();
    assert!(
        first
            .iter()
            .all(|it| it["before"].is_null() && it["after"] == "before the edit"),
        "{first:?}"
    );
    let mut stderr = BufReader::new(child.stderr.take().expect("a pipe"));
    let mut said = String::new();
    while !said.contains("Watching") {
        assert!(stderr.read_line(&mut said).expect("a line") > 0, "{said}");
    }
    // Only the prompt whose file changed is tried again, on two scenarios.
    scratch.write(
        "task/prompts/v1.md",
        "second wording for {{ persona }}, {{ slot }}\n",
    );
    let second = [next(), next()];
    for it in &second {
        assert_eq!(
            (&it["prompt"], &it["before"], &it["after"]),
            (
                &json!("v1"),
                &json!("before the edit"),
                &json!("after the edit")
            )
        );
        assert_eq!(it["from_cache"], false);
    }
    // A mistake is reported, and the watch goes on; going back to the first wording costs nothing.
    scratch.write("task/prompts/v1.md", "{% if %}\n");
    said.clear();
    while !said.contains("does not parse") {
        assert!(stderr.read_line(&mut said).expect("a line") > 0, "{said}");
    }
    scratch.write(
        "task/prompts/v1.md",
        "first wording for {{ persona }}, {{ slot }}\n",
    );
    let third = [next(), next()];
    assert!(
        third
            .iter()
            .all(|it| it["from_cache"] == true && it["after"] == "before the edit"),
        "{third:?}"
    );
    let interrupted = std::process::Command::new("kill")
        .args(["-INT", &child.id().to_string()])
        .status()
        .expect("kill runs");
    assert!(interrupted.success());
    assert_eq!(child.wait().expect("it ends").code(), Some(130));
    assert!(
        !scratch.file(".assize/assize.db").exists(),
        "nothing is tracked"
    );
}

#[test]
fn measuring_uses_the_cache_only_where_it_is_asked_to_and_says_so() {
    let scratch = scratch();
    let collect = "collect --task task --models scripted:m --script script.json --prompts v1 --n-scenarios 1 --n-tips 2 --json";
    let tags = |line: &str| -> String {
        let done = scratch.ok(line);
        let id = cells(&done)[0]["run_id"]
            .as_str()
            .expect("an id")
            .to_owned();
        scratch.ok(&format!("runs show {id} --json")).json()["tags"].to_string()
    };
    let plain = tags(&format!("{collect} --experiment a"));
    assert!(
        !plain.contains("from_cache") && !scratch.file(".assize/cache").exists(),
        "{plain}"
    );
    let filling = tags(&format!("{collect} --experiment b --cache"));
    assert!(!filling.contains("from_cache"), "{filling}");
    let cached = tags(&format!("{collect} --experiment c --cache"));
    assert!(
        cached.contains("from_cache") && cached.contains("2 of 2"),
        "{cached}"
    );
    let measured = tags(&format!("{collect} --experiment d"));
    assert!(!measured.contains("from_cache"), "{measured}");
}

#[test]
fn a_built_in_task_has_no_files_to_watch() {
    let scratch = scratch();
    let refused = scratch.fails(
        2,
        "collect --models scripted:m --script script.json --watch",
    );
    assert!(refused.stderr.contains("assize init DIR"), "{refused}");
}

//! `assize agent install`: every agent finds the queue, and existing files are kept.

use assize_test_support::Scratch;
use serde_json::json;

const FILES: [&str; 9] = [
    ".mcp.json",
    ".claude/commands/judge.md",
    ".claude/commands/reflect.md",
    ".codex/config.toml",
    ".agents/skills/judge/SKILL.md",
    ".agents/skills/reflect/SKILL.md",
    ".gemini/settings.json",
    ".gemini/commands/judge.toml",
    ".gemini/commands/reflect.toml",
];

#[test]
fn a_fresh_project_gets_everything_and_a_second_time_changes_nothing() {
    let scratch = Scratch::new();
    let done = scratch.ok("agent install --json").json();
    assert!(
        done["files"]
            .as_array()
            .expect("files")
            .iter()
            .all(|it| it["status"] == "written")
    );
    let args = json!(["mcp", "--tracking-uri", "sqlite:.assize/assize.db"]);
    let server = json!({"command": "assize", "args": args});
    for file in [".mcp.json", ".gemini/settings.json"] {
        assert_eq!(
            scratch.read_json(file),
            json!({"mcpServers": {"assize": server}})
        );
    }
    let command = scratch.read(".claude/commands/judge.md");
    assert!(command.starts_with("---\ndescription: "), "{command}");
    assert!(command.contains("$ARGUMENTS") && command.contains("mcp__assize__submit_verdicts"));
    assert!(command.contains("assize judge apply judge.json --judge-kind claude-code"));
    let reflect = scratch.read(".claude/commands/reflect.md");
    for part in [
        "$ARGUMENTS",
        "mcp__assize__next_packet, mcp__assize__submit_children, Bash(assize optimise step:*)",
        "assize optimise step --experiment NAME",
    ] {
        assert!(reflect.contains(part), "{part}\n{reflect}");
    }
    let before: Vec<String> = FILES.iter().map(|file| scratch.read(file)).collect();
    let again = scratch.ok("agent install --json").json();
    assert!(
        again["files"]
            .as_array()
            .expect("files")
            .iter()
            .all(|it| it["status"] == "unchanged")
    );
    let after: Vec<String> = FILES.iter().map(|file| scratch.read(file)).collect();
    assert_eq!(before, after);
}

#[test]
fn existing_files_are_changed_only_with_consent() {
    let scratch = Scratch::new();
    let mine = r#"{"mcpServers":{"mine":{"command":"m"}},"other":1}"#;
    scratch.write(".mcp.json", mine);
    scratch.write(".claude/commands/judge.md", "My own command.\n");
    scratch.write(
        ".gemini/settings.json",
        "{ // my theme\n \"theme\": \"x\" }",
    );
    let outcome = scratch.ok("agent install");
    assert_eq!(scratch.read(".mcp.json"), mine);
    assert!(
        outcome.stderr.contains("\"command\": \"assize\""),
        "says what to add\n{outcome}"
    );
    assert!(outcome.stderr.contains("--yes"), "{outcome}");

    scratch.ok("agent install --yes");
    let merged = scratch.read_json(".mcp.json");
    assert_eq!(merged["mcpServers"]["mine"]["command"], "m");
    assert_eq!(merged["mcpServers"]["assize"]["args"][0], "mcp");
    assert_eq!(merged["other"], 1);
    assert_eq!(
        scratch.read(".claude/commands/judge.md.1.bak"),
        "My own command.\n"
    );
    assert!(
        scratch
            .read(".gemini/settings.json")
            .contains("// my theme"),
        "never guessed at"
    );
}

#[test]
fn the_slash_command_works_without_mcp_as_written() {
    let scratch = Scratch::new();
    scratch.ok("agent install");
    let command = scratch.read(".claude/commands/judge.md");
    for step in [
        "assize judge export --experiment NAME --out judge.json",
        "assize judge apply judge.json",
    ] {
        assert!(command.contains(step), "{command}");
    }
    scratch.write(
        "script.json",
        &assize_test_support::script(&[("a", &["Drink some water."])]),
    );
    scratch.ok("collect --models scripted:a --prompts v1 --n-tips 1 --n-scenarios 2 --script script.json --experiment NAME");
    let outcome = scratch.judge("NAME", "judge.json", "--judge-kind claude-code", |case| {
        assize_test_support::score_all(case, 4);
    });
    assert!(outcome.stderr.contains("expert tier"), "{outcome}");
}

#[cfg(unix)]
#[test]
fn a_link_stays_a_link_and_its_target_is_merged() {
    let scratch = Scratch::new();
    let mine = r#"{"mcpServers":{"mine":{"command":"m"}}}"#;
    scratch.write("shared/mcp.json", mine);
    let link = scratch.file(".mcp.json");
    std::os::unix::fs::symlink("shared/mcp.json", &link).expect("a link");
    scratch.ok("agent install --yes");
    assert!(link.is_symlink());
    let merged = scratch.read_json("shared/mcp.json");
    assert_eq!(merged["mcpServers"]["mine"]["command"], "m");
    assert_eq!(merged["mcpServers"]["assize"]["command"], "assize");
    std::fs::remove_file(scratch.file("shared/mcp.json")).expect("removed");
    scratch.ok("agent install --yes");
    assert!(link.is_symlink(), "also where its target was missing");
    scratch.read_json("shared/mcp.json");
}

#[test]
fn a_binary_file_is_named_and_the_others_are_installed() {
    let scratch = Scratch::new();
    std::fs::write(scratch.file(".mcp.json"), b"{\"a\": \"\xff\"}").expect("a file");
    let outcome = scratch.fails(1, "agent install --yes --json");
    assert!(outcome.stderr.contains("not UTF-8"), "{outcome}");
    let fates = outcome.json();
    let fates = fates["files"].as_array().expect("files");
    assert_eq!(fates[0]["status"], "failed");
    assert!(
        fates[1..].iter().all(|it| it["status"] == "written"),
        "{outcome}"
    );
    let left = std::fs::read(scratch.file(".mcp.json")).expect("there");
    assert_eq!(left, b"{\"a\": \"\xff\"}");
}

#[test]
fn the_task_and_the_store_of_the_command_are_the_agents() {
    let scratch = Scratch::new();
    assize_test_support::write_small_task(&scratch, 2);
    scratch.ok("agent install --task task --tracking-uri sqlite:bench.db");
    let expected = json!(["mcp", "--task", "task", "--tracking-uri", "sqlite:bench.db"]);
    let args = |file: &str| scratch.read_json(file)["mcpServers"]["assize"]["args"].clone();
    assert_eq!(args(".mcp.json"), expected);
    assert_eq!(args(".gemini/settings.json"), expected);
    let codex: toml::Table = scratch.read(".codex/config.toml").parse().expect("TOML");
    let codex = serde_json::to_value(&codex["mcp_servers"]["assize"]["args"]).expect("JSON");
    assert_eq!(codex, expected);

    // Another store is written over the earlier one, with consent.
    scratch.ok("agent install --tracking-uri sqlite:other.db");
    assert_eq!(args(".mcp.json"), expected);
    scratch.ok("agent install --tracking-uri sqlite:other.db --yes");
    let expected = json!(["mcp", "--tracking-uri", "sqlite:other.db"]);
    assert_eq!(args(".mcp.json"), expected);
    assert!(
        scratch
            .read(".codex/config.toml")
            .contains("sqlite:other.db")
    );

    scratch.fails(2, "agent install --task nowhere");
    let secret = scratch.ok("agent install --yes --tracking-uri http://ann:secret@localhost:1");
    assert!(secret.stderr.contains("MLFLOW_TRACKING_URI"), "{secret}");
    assert!(!scratch.read(".mcp.json").contains("secret"));
}

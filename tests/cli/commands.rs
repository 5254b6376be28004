//! Commands as users type them: help, tasks, invalid input, output formats.

use assize_test_support::{Scratch, collect, script, write_small_task};

#[test]
fn help_names_every_command_with_examples() {
    let scratch = Scratch::new();
    let help = scratch.ok(&["--help"]).stdout;
    for word in [
        "demo",
        "init",
        "validate",
        "models",
        "collect",
        "judge",
        "compare",
        "experiments",
        "runs",
        "completions",
        "Examples:",
        "Exit codes:",
    ] {
        assert!(help.contains(word), "{word}\n{help}");
    }
    for command in [
        &["collect"][..],
        &["judge", "export"],
        &["judge", "apply"],
        &["judge", "auto"],
        &["compare"],
        &["runs", "list"],
    ] {
        let help = scratch.ok(&[command, &["--help"]].concat()).stdout;
        assert!(help.contains("Usage:"), "{help}");
    }
    scratch.fails(2, &["colect"]);
    assert!(
        scratch
            .ok(&["completions", "bash"])
            .stdout
            .contains("_assize")
    );
    assert!(
        scratch
            .ok(&["config", "--defaults"])
            .stdout
            .contains("n_tips = 5")
    );
}

#[test]
fn a_copy_of_the_built_in_task_is_sound_and_behaves_the_same() {
    let scratch = Scratch::new();
    scratch.ok(&["init", "mine"]);
    let sound = scratch.ok(&["validate", "mine"]);
    assert!(sound.stdout.contains("tip is valid"), "{sound}");
    scratch.write("script.json", &script(&[("a", &["Walk."])]));
    scratch.ok(&collect("scripted:a", ""));
    let again = scratch.ok(&collect("scripted:a", "--task mine")).summary();
    assert_eq!(again["skipped"], 24, "the same content is the same cells");
    let refused = scratch.fails(2, &["init", "mine"]);
    assert!(refused.stderr.contains("not empty"), "{refused}");
}

#[test]
fn validate_says_everything_that_is_wrong_with_file_and_line() {
    let scratch = Scratch::new();
    write_small_task(&scratch, 2);
    scratch.write("task/prompts/p1.md", "Hello\n{{ topc }}\n");
    scratch.write(
        "task/rubric.md",
        &scratch
            .read("task/rubric.md")
            .replace("2 = \"so so\"\n", "")
            .replace("worth + ok", "worth + charm"),
    );
    scratch.write(
        "task/scenarios.jsonl",
        "{\"id\":\"s0\",\"topic\":\"x\"}\n{\"id\":\"s0\",\"topic\":\"y\"}\n",
    );
    scratch.write("task/prompts/p2.md", "Tell me\n{% if topic\n");
    let task = scratch.read("task/task.toml");
    let wrong = "colour = 1\n\n[defaults]\nn_tips = 0\nflavour = 2\n\n";
    scratch.write(
        "task/task.toml",
        &task.replacen("\n\n", &format!("\n{wrong}"), 1),
    );
    let outcome = scratch.fails(2, "validate task");
    for expected in [
        "unknown field `colour`",
        "unknown field `flavour`",
        "task.toml:7:",
    ] {
        assert!(outcome.stderr.contains(expected), "{expected}\n{outcome}");
    }
    let known = wrong
        .replace("colour = 1\n", "")
        .replace("flavour = 2\n", "");
    scratch.write(
        "task/task.toml",
        &task.replacen("\n\n", &format!("\n{known}"), 1),
    );
    let outcome = scratch.fails(2, "validate task");
    for expected in [
        "defaults.n_tips is 0: use 1 to 1000",
        "prompts/p2.md:2: the template does not parse",
        "problems in the task task",
        "scenarios.jsonl:2: the id 's0' is already used by an earlier scenario",
        "'worth' has no anchor for level 2",
        "the composite names 'charm'",
    ] {
        assert!(outcome.stderr.contains(expected), "{expected}\n{outcome}");
    }
    scratch.write("task/scenarios.jsonl", "{\"id\":\"s0\",\"topic\":\"x\"}\n");
    let outcome = scratch.fails(2, &["validate", "task"]);
    assert!(
        outcome
            .stderr
            .contains("prompts/p1.md:2: no scenario has a field 'topc': use one of topic, angle"),
        "{outcome}"
    );
    let json = scratch.fails(2, "validate task --json").json();
    assert_eq!(json["ok"], false);
    assert!(json["problems"].as_array().is_some_and(|it| it.len() >= 3));
}

#[test]
fn boards_come_in_every_format() {
    let scratch = Scratch::new();
    scratch.write(
        "script.json",
        &script(&[("<script>alert(1)</script>", &["Walk."]), ("b", &["Rest."])]),
    );
    scratch.ok("collect --models scripted:<script>alert(1)</script>,scripted:b --script script.json --experiment e --n-tips 1");
    let empty = scratch.ok("compare --experiment e");
    assert!(empty.stdout.contains("0 of 48 cells judged"), "{empty}");
    scratch.ok("judge export --experiment e --out judge.json --no-anchors");
    let mut file = scratch.read_json("judge.json");
    for case in file["cases"].as_array_mut().expect("cases") {
        let good = case["candidate"] == "Walk.";
        for name in ["relevance", "actionability", "tone"] {
            case["scores"][name] = serde_json::json!(if good { 5 } else { 1 });
        }
    }
    scratch.write("judge.json", &file.to_string());
    scratch.ok("judge apply judge.json");
    scratch.ok("compare --experiment e -o b.html -o b.md -o b.csv -o b.json -o b.txt");
    for name in ["b.html", "b.md"] {
        assert!(
            !scratch.read(name).contains("<script>alert"),
            "{name} is not escaped"
        );
    }
    assert_eq!(scratch.read("b.csv").lines().count(), 7);
    assert_eq!(
        scratch.read_json("b.json")["rows"].as_array().map(Vec::len),
        Some(6)
    );
    let table = scratch
        .ok("compare --experiment e --incumbent scripted:b/v1")
        .stdout;
    assert!(
        table.lines().all(|line| line.chars().count() <= 80),
        "{table}"
    );
    let board = scratch
        .ok("compare --experiment e --incumbent scripted:b/v1 --json")
        .json();
    assert!(
        board["decision"]["winner"].is_object(),
        "{}",
        board["decision"]
    );
    scratch.fails(2, "compare --experiment e -o b.pdf");
    let unknown = scratch.fails(2, "compare --experiment e --incumbent x/y");
    assert!(unknown.stderr.contains("scripted:b/v1"), "{unknown}");
}

#[test]
fn an_empty_store_is_explained() {
    let scratch = Scratch::new();
    for args in [
        &["compare", "--experiment", "e"][..],
        &["runs", "list", "--experiment", "e"],
    ] {
        let outcome = scratch.fails(2, args);
        assert!(
            outcome
                .stderr
                .contains("nothing is tracked in .assize/assize.db yet"),
            "{outcome}"
        );
    }
    let listed = scratch.ok("experiments list --json").json();
    assert_eq!(listed, serde_json::json!({"experiments": []}));
    assert!(!scratch.file(".assize").exists(), "looking creates nothing");
}

#[test]
fn deleted_runs_can_be_collected_again() {
    let scratch = Scratch::new();
    scratch.write("script.json", &script(&[("a", &["=1+1", "Rest."])]));
    let collect = collect("scripted:a", "--n-tips 2");
    scratch.ok(&collect);
    let runs = scratch.ok("runs list --experiment e --json").json();
    let id = runs["runs"][0]["run_id"].as_str().expect("id").to_owned();
    scratch.fails(2, &["runs", "delete", &id[..8], "nonsense"]);
    assert_eq!(
        scratch.ok(&collect).summary()["collected"],
        0,
        "a typing mistake deletes nothing"
    );
    scratch.ok(&["runs", "delete", &id[..8]]);
    assert_eq!(scratch.ok(&collect).summary()["collected"], 1);
    scratch.ok("runs export --experiment e -o runs.csv");
    assert_eq!(scratch.read("runs.csv").lines().count(), 49);
    assert_eq!(
        scratch
            .ok("runs export --experiment e")
            .stdout
            .lines()
            .count(),
        48
    );
}

#[test]
fn scenarios_of_a_spreadsheet_are_read_as_they_are() {
    let scratch = Scratch::new();
    write_small_task(&scratch, 1);
    let task = scratch.read("task/task.toml");
    scratch.write(
        "task/task.toml",
        &task.replace("scenarios.jsonl", "scenarios.csv"),
    );
    scratch.write(
        "task/prompts/p1.md",
        "{{ topic }}{% if note %} ({{ note }}){% endif %}\n",
    );
    scratch.write(
        "task/scenarios.csv",
        "id;topic;note\na;[URGENT] no light; kitchen\nb;{name} is gone;\n",
    );
    scratch.write("script.json", &script(&[("a", &["Walk."])]));
    let line = "collect --task task --models scripted:a --script script.json --prompts p1 --n-tips 1 \
                --experiment e --json";
    assert_eq!(scratch.ok(line).summary()["collected"], 2);
    scratch.write("task/scenarios.csv", "id,topic,topic\na,x\nb,y,z,w\n");
    let bad = scratch.fails(2, "validate task");
    for place in [
        "scenarios.csv:1: ",
        "scenarios.csv:2: ",
        "scenarios.csv:3: ",
    ] {
        assert!(bad.stderr.contains(place), "{bad}");
    }
}

#[test]
fn completions_offer_splits_and_not_files() {
    let script = Scratch::new().ok("completions bash").stdout;
    let at = script.find("--split)").expect("a case of --split");
    let case = &script[at..script[at..].find(";;").map_or(script.len(), |end| at + end)];
    assert!(case.contains("selection feedback confirmation"), "{case}");
    assert!(!case.contains("compgen -f"), "{case}");
}

//! The commands of docs/tutorial.md, as they stand on the page.

use assize_test_support::ollama_stand_in::{OllamaStandIn, StandInModel};
use assize_test_support::{Outcome, Scratch, root};

/// The code blocks of a page in this language.
fn blocks(page: &str, language: &str) -> Vec<String> {
    let opening = format!("```{language}\n");
    let parts = page.split(&opening).skip(1);
    parts
        .map(|part| part.split("```").next().unwrap_or_default().to_owned())
        .collect()
}

#[test]
fn every_command_of_the_tutorial_works_as_printed() {
    let page = std::fs::read_to_string(root().join("docs/tutorial.md")).expect("the tutorial");
    let commands: Vec<String> = blocks(&page, "sh")
        .iter()
        .flat_map(|it| {
            let lines: Vec<String> = it.lines().map(str::to_owned).collect();
            lines
        })
        .collect();
    assert!(
        (4..=6).contains(&commands.len()),
        "at most six commands: {commands:?}"
    );
    let scratch = Scratch::new();
    scratch.write("tickets.csv", &blocks(&page, "csv")[0]);
    assert_eq!(
        scratch.read("tickets.csv").lines().count(),
        13,
        "twelve tickets"
    );
    // The page assumes an Ollama on its usual port; a stand-in answers here, mostly right.
    let labels = ["billing", "bug", "Feature.", "account"];
    let host = OllamaStandIn::start(vec![
        StandInModel::new("qwen2.5:0.5b", 494_032_768, &labels),
        StandInModel::new("gemma3:1b", 999_885_952, &labels),
    ]);
    let mut outputs = Vec::new();
    for command in &commands {
        let words: Vec<&str> = command.split_whitespace().collect();
        assert_eq!(words[0], "assize", "{command}");
        let output = scratch
            .command(&words[1..])
            .env("ASSIZE_OLLAMA_URL", host.url())
            .output();
        let outcome = Outcome::of(&output.expect("the binary runs"));
        assert_eq!(outcome.code, 0, "{command}\n{outcome}");
        outputs.push(outcome);
    }
    assert!(
        outputs[0].stderr.contains("scenarios 12, prompts 2"),
        "{}",
        outputs[0]
    );
    let board = scratch.board("tickets");
    assert_eq!(board["rows"].as_array().map(Vec::len), Some(4), "{board}");
    assert_eq!(board["coverage"]["judged"], 48, "{board}");
    assert_eq!(board["coverage"]["pending"], 0);
    assert!(outputs[4].stdout.contains("highest mean"), "{}", outputs[4]);
    let html = scratch.read("board.html");
    assert!(
        html.contains("id=\"outputs\"") && html.contains("t10"),
        "the report"
    );
    // What the page says of the other steps.
    let found = scratch
        .ok("runs list --experiment tickets --search billing --json")
        .json();
    assert!(!found["runs"].as_array().expect("runs").is_empty());
}

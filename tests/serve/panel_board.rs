//! The board and the gate's page of the web panel, in a real browser.

use serde_json::json;

use assize_test_support::browser::drive;
use assize_test_support::server::Served;
use assize_test_support::{Scratch, write_small_task};

/// Three judged pairs with `good` as champion, and a model that fails in every cell.
fn board_scratch() -> Scratch {
    let scratch = Scratch::new();
    write_small_task(&scratch, 8);
    scratch.write("assize.toml", "[gate]\nrequire = [\"expert\"]\n");
    let model = |text: &str| {
        json!({"parameter_count": 500_000_000, "responses":
            [{"prompt": "*", "scenario": "*", "texts": [text], "latency_ms": 20}]})
    };
    let broken = json!({"parameter_count": 500_000_000, "responses":
        [{"prompt": "*", "scenario": "*", "error": "malformed"}]});
    let models = json!({"plain-1.5b-instruct": model("Sleep."), "fair": model("Eat."),
        "good-with-quantisation_q4_K_M": model("Walk."), "broken": broken});
    scratch.write("script.json", &json!({"models": models}).to_string());
    let collect = |models: &str| {
        format!(
            "collect --task task --models {models} --prompts p1 --n-tips 1 --script script.json \
             --experiment bench"
        )
    };
    scratch.ok(collect(
        "scripted:plain-1.5b-instruct,scripted:fair,scripted:good-with-quantisation_q4_K_M",
    )
    .as_str());
    let words = "--judge-kind human --judged-by ada";
    scratch.judge("bench", "judge.json", words, |case| {
        let text = case["candidate"].as_str().unwrap_or_default();
        let score = if text.contains("Walk") {
            3
        } else if text.contains("Eat") {
            2
        } else {
            1
        };
        case["scores"]["worth"] = json!(score);
    });
    scratch.ok("promote --task task --experiment bench --note because");
    let failing = scratch.run(collect("scripted:broken").as_str());
    assert_ne!(failing.code, 0, "every cell fails");
    scratch
}

fn serve(scratch: &Scratch) -> Served {
    Served::start_with(
        scratch,
        "serve --port 0 --json --task task --allow script.json",
    )
}

#[test]
fn the_board_says_what_it_shows_at_every_width() {
    let scratch = board_scratch();
    let served = serve(&scratch);
    drive("tests/serve/panel_browser/board.mjs", &served, &[]);
    drive(
        "tests/serve/panel_browser/board.mjs",
        &served,
        &[("JAVASCRIPT", "off")],
    );
}

#[test]
fn downloads_are_the_files_of_the_command() {
    let scratch = board_scratch();
    let served = serve(&scratch);
    let words = "--task task --experiment bench --incumbent scripted:fair/p1";
    for format in ["csv", "json", "html"] {
        let path = format!("/experiments/bench/board.{format}?incumbent=scripted%3Afair%2Fp1");
        let reply = served.get(&path);
        assert_eq!(reply.status, 200, "{path}");
        let name = format!("content-disposition: attachment; filename=\"bench-board.{format}\"");
        assert!(reply.head.to_lowercase().contains(&name), "{}", reply.head);
        let command = scratch.ok(format!("compare {words} --format {format}").as_str());
        let ours = String::from_utf8_lossy(&reply.body).into_owned();
        assert_eq!(undated(&ours), undated(&command.stdout), "{format}");
    }
    let sealed = served.get("/experiments/bench/board.csv?split=confirmation");
    assert_eq!(sealed.status, 403);
    assert_eq!(served.get("/experiments/nowhere/board.csv").status, 404);
}

/// Without the time at which an HTML report was made.
fn undated(text: &str) -> String {
    match text.split_once("<footer>") {
        Some((page, _)) => page.to_owned(),
        None => text.to_owned(),
    }
}

#[test]
fn every_format_says_that_the_champion_holds() {
    let scratch = board_scratch();
    let text = scratch.ok("compare --task task --experiment bench").stdout;
    assert!(text.contains("Champion holds"), "{text}");
    assert!(!text.contains("No winner yet"), "{text}");
    let board = scratch.board("bench");
    assert_eq!(board["decision"]["champion_holds"], true, "{board}");
    assert_eq!(board["failed_pairs"][0]["cells"], 8, "{board}");
    let other = scratch.ok("compare --task task --experiment bench --incumbent scripted:fair/p1");
    assert!(!other.stdout.contains("Champion holds"), "{}", other.stdout);
}

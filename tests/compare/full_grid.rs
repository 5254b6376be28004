//! The default grid, end to end: 4 models × 3 prompts × 8 scenarios × 5 candidates, exported,
//! scored by a script, applied and compared; every composite is checked exactly.

use std::collections::BTreeMap;

use assize_test_support::{Scratch, script};
use serde_json::{Value, json};

const MODELS: [&str; 4] = ["alpha", "beta", "gamma", "delta"];
const COLLECT: &str = "collect --models scripted:alpha,scripted:beta,scripted:gamma,scripted:delta \
    --script script.json --experiment seed --json";

/// A score that follows from the candidate's text alone.
fn score(text: &str, salt: u32) -> i64 {
    let sum: u32 = text.bytes().map(u32::from).sum();
    i64::from((sum * 7 + salt * 13) % 5) + 1
}

fn scores(text: &str) -> (i64, i64, i64, bool, bool) {
    let overlong = text.len().is_multiple_of(7);
    let format_ok = !text.len().is_multiple_of(5);
    (
        score(text, 1),
        score(text, 2),
        score(text, 3),
        format_ok,
        overlong,
    )
}

fn composite(text: &str) -> f64 {
    let (relevance, actionability, tone, format_ok, overlong) = scores(text);
    (relevance + actionability + tone) as f64 + 2.0 * f64::from(u8::from(format_ok))
        - f64::from(u8::from(overlong))
}

fn texts(model: &str) -> Vec<String> {
    (0..5)
        .map(|n| format!("Tip {n} of {model}: {}", "walk ".repeat(n + model.len())))
        .collect()
}

#[test]
#[expect(clippy::too_many_lines, reason = "one story, told in order")]
fn the_full_grid_has_exact_composites() {
    let scratch = Scratch::new();
    let answers: Vec<(&str, Vec<String>)> =
        MODELS.iter().map(|model| (*model, texts(model))).collect();
    let answers: Vec<(&str, Vec<&str>)> = answers
        .iter()
        .map(|(model, texts)| (*model, texts.iter().map(String::as_str).collect()))
        .collect();
    let answers: Vec<(&str, &[&str])> = answers
        .iter()
        .map(|(model, texts)| (*model, texts.as_slice()))
        .collect();
    scratch.write("script.json", &script(&answers));

    let collected = scratch.ok(COLLECT);
    let summary = collected.summary();
    assert_eq!(
        (&summary["cells"], &summary["collected"], &summary["failed"]),
        (&json!(96), &json!(96), &json!(0))
    );
    for model in MODELS {
        assert_eq!(summary["model_loads"][format!("scripted:{model}")], 1);
    }

    let again = scratch.ok(COLLECT).summary();
    assert_eq!(
        (
            &again["collected"],
            &again["skipped"],
            &again["model_loads"]
        ),
        (&json!(0), &json!(96), &json!({}))
    );

    scratch.ok("judge export --experiment seed --out judge.json --no-anchors");
    let mut file = scratch.read_json("judge.json");
    assert_eq!(file["cases"].as_array().expect("cases").len(), 480);
    let text = file.to_string().replace("tip-v1", "");
    for hidden in ["v1", "v2-mentor", "v3-few-shot", "scripted"] {
        assert!(!text.contains(hidden), "the file names {hidden}");
    }
    for case in file["cases"].as_array_mut().expect("cases") {
        let candidate = case["candidate"].as_str().expect("text").to_owned();
        let (relevance, actionability, tone, format_ok, overlong) = scores(&candidate);
        case["scores"] = json!({"relevance": relevance, "actionability": actionability, "tone": tone,
                                "format_ok": format_ok, "overlong": overlong});
        case["rationale"] = json!("recomputed");
    }
    scratch.write("judge.json", &file.to_string());
    scratch.ok("judge apply judge.json --judge-kind human --judged-by Ana");

    let board = scratch.ok("compare --experiment seed --format json").json();
    let rows = board["rows"].as_array().expect("rows");
    assert_eq!(rows.len(), 12);
    assert_eq!(
        board["coverage"],
        json!({"cells": 96, "judged": 96, "pending": 0, "failed": 0})
    );
    let expected: BTreeMap<String, f64> = MODELS
        .iter()
        .map(|model| {
            let composites: Vec<f64> = texts(model)
                .iter()
                .map(|text| composite(text.trim()))
                .collect();
            (
                format!("scripted:{model}"),
                composites.iter().sum::<f64>() / 5.0,
            )
        })
        .collect();
    for row in rows {
        let mean = row["composite"]["mean"].as_f64().expect("mean");
        let wanted = expected[row["model"].as_str().expect("model")];
        assert!((mean - wanted).abs() < 1e-9, "{row} should be {wanted}");
        assert_eq!(
            (&row["scenarios"], &row["candidates"]),
            (&json!(8), &json!(40))
        );
    }
    check_board_shape(&board);
}

fn check_board_shape(board: &Value) {
    let means: Vec<f64> = board["rows"]
        .as_array()
        .expect("rows")
        .iter()
        .map(|row| row["composite"]["mean"].as_f64().expect("mean"))
        .collect();
    assert!(
        means.windows(2).all(|pair| pair[0] >= pair[1]),
        "rows are ranked"
    );
    assert_eq!(board["rows"][0]["rank"], 1);
    assert_eq!(board["tier"], "expert");
    assert_eq!(board["rubric"]["id"], "tip-v1");
    assert_eq!(
        board["incumbent"],
        json!({"model": "scripted:alpha", "prompt": "v1", "settings": null})
    );
    let variance = board["variance"].as_object().expect("variance");
    let total: f64 = variance
        .values()
        .map(|share| share.as_f64().expect("share"))
        .sum();
    assert!((total - 1.0).abs() < 1e-9, "{variance:?}");
}

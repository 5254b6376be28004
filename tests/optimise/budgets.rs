//! Every budget ends the search, and the best so far is nominated.

use serde_json::json;

use crate::fixture::{START, child, fixing_rounds, scratch, scratch_with, start, step, with};

#[test]
fn rounds_verdicts_children_and_stale_rounds_end_the_search() {
    for (flags, end) in [
        ("--rounds 1", "the only round is done"),
        ("--rounds 2 --max-children 2", "all 2 children are written"),
        ("--rounds 2 --ceiling 0.3", "of at most 10.00 points"),
        ("--rounds 2 --max-hours 0.0000001", "hours are over"),
    ] {
        let scratch = scratch(&fixing_rounds());
        scratch.ok(START.replace("--rounds 2", flags).as_str());
        let found = step(&scratch);
        let reason = found["reason"].as_str().unwrap_or_default();
        assert!(reason.contains(end), "{flags}: {found:#}");
    }
    let neutral = json!([
        [child("no change in substance", &with(&["think"]))],
        [child("nor here", &with(&["reflect"]))],
        [child("nor there", &with(&["ponder"]))],
    ]);
    let scratch = scratch_with(&neutral, &json!({}), 0);
    let line = START.replace("--rounds 2", "--rounds 3 --stale-rounds 2");
    scratch.ok(line.as_str());
    let found = step(&scratch);
    assert_eq!(found["state"], "rejected");
    let reason = found["reason"].as_str().unwrap_or_default();
    assert!(
        reason.contains("2 rounds in a row had no leader"),
        "{found:#}"
    );
}

#[test]
fn verdicts_stay_within_their_budget() {
    let scratch = scratch(&fixing_rounds());
    let refused = scratch.fails(2, format!("{START} --max-auto 40").as_str());
    assert!(refused.stderr.contains("--max-auto leaves"), "{refused}");
    let started = start(&scratch, "--max-auto 70");
    assert!(started.stderr.contains("of 8 scenarios"), "{started}");
    let found = step(&scratch);
    assert!(
        found["budget"]["auto_verdicts"].as_u64() <= Some(70),
        "{found:#}"
    );
}

#[test]
fn money_is_never_passed_and_ends_the_search() {
    let judge = json!({"cost_usd": 0.01});
    let scratch = scratch_with(&fixing_rounds(), &judge, 0);
    // Sixteen verdicts of the seed cost 0.16; the first stage does not fit.
    start(&scratch, "--max-cost 0.2");
    let found = step(&scratch);
    assert!(
        found["budget"]["cost_usd"].as_f64() <= Some(0.2 + 1e-9),
        "{found:#}"
    );
    assert_eq!(found["state"], "rejected", "{found:#}");
}

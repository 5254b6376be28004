//! Planted defects: how many of those that can be fixed are fixed, and what becomes of bad children.

use serde_json::json;

use crate::fixture::{DEFECTS, START, scratch, step};

const LOOPS: usize = 8;

#[test]
fn most_planted_defects_are_fixed_within_five_rounds() {
    let fixing = DEFECTS.map(|(phrase, _)| {
        json!({"rule": "fixing", "weight": 3, "text": format!("Please {phrase}."),
               "when": format!("It should {phrase}."), "hypothesis": phrase})
    });
    let others = [
        ("neutral", "leads", ""),
        ("harmful", "leads", ""),
        ("copying", "copies", "leak: "),
        ("bloating", "grows", "length: "),
        ("variable_dropping", "loses", "variables: "),
    ];
    let rules = others.map(|(rule, hypothesis, _)| json!({"rule": rule, "hypothesis": hypothesis}));
    let rules: Vec<_> = fixing.into_iter().chain(rules).collect();
    let (mut fixed, mut screened) = (0, 0);
    for seed in 0..LOOPS {
        let scratch = scratch(&json!([]));
        scratch.write("children.json", &json!({"rules": rules}).to_string());
        let start = START
            .replace("--children 2 --rounds 2", "")
            .replace("--seed 7", &format!("--seed {seed}"));
        scratch.ok(start.as_str());
        let found = step(&scratch);
        let nominee = found["nominee"].as_str().expect("a nominee");
        let text = format!("optimise show --experiment e --text {nominee}");
        let text = scratch.ok(text.as_str()).stdout;
        fixed += DEFECTS.iter().filter(|it| text.contains(it.0)).count();
        for child in found["children"].as_array().expect("children") {
            let bad = others.iter().find(|it| child["hypothesis"] == it.1);
            let Some((rule, _, screen)) = bad.filter(|it| !it.2.is_empty()) else {
                continue;
            };
            let reason = child["reason"].as_str().unwrap_or_default();
            // A copy may be too long besides.
            let screens = [*screen, "length: "];
            assert!(
                screens.iter().any(|it| reason.starts_with(it)),
                "{rule}: {child}"
            );
            screened += 1;
        }
        assert!(
            found["budget"]["auto_verdicts"].as_u64() <= Some(300),
            "{found:#}"
        );
    }
    let all = LOOPS * DEFECTS.len();
    eprintln!("{fixed} of {all} planted defects are fixed; {screened} bad children were screened");
    assert!(100 * fixed >= 95 * all, "{fixed} of {all}");
    assert!(screened > LOOPS, "too few bad children to say anything");
}

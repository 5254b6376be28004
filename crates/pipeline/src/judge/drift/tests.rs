use std::collections::BTreeMap;

use assize_domain::builtin;
use assize_domain::task::Task;
use assize_domain::verdict::RubricRef;
use assize_stats::rng::SplitMix64;
use serde_json::{Value, json};

use super::*;

fn tip() -> Task {
    Task::parse(&builtin::files("tip").expect("built in")).expect("sound")
}

/// A sitting in which `score` gives a known score and the criterion's place its value.
fn sitting(
    task: &Task,
    number: u32,
    mut score: impl FnMut(&Anchor, usize) -> i64,
) -> SittingRecord {
    let rubric = RubricRef {
        id: task.rubric.id.clone(),
        sha256: task.rubric.sha256.clone(),
    };
    let sitting = Sitting {
        id: format!("s{number:02}"),
        experiment: "e".to_owned(),
        tier: Tier::Auto,
        rubric,
        opened_at: format!("2026-04-27T10:{number:02}:00Z"),
        seed: 1,
        salt: "salt".to_owned(),
        runs: Vec::new(),
        judge: None,
        copies: 1,
        anchors: task.anchors.clone(),
        inclusion: Vec::new(),
    };
    let judge = Judge {
        kind: "m".to_owned(),
        name: "m".to_owned(),
        version: None,
    };
    let verdicts = (0_u32..).zip(&task.anchors.cases).map(|(place, anchor)| {
        let criteria = task.rubric.criteria.iter().enumerate();
        let scores: BTreeMap<String, Value> = criteria
            .map(|(at, it)| {
                (
                    it.name.clone(),
                    json!(score(anchor, at).clamp(it.min, it.max)),
                )
            })
            .collect();
        Verdict::new(&task.rubric, place, scores, &BTreeMap::new(), None).expect("complete")
    });
    let file = sitting.verdict_file(&judge, &sitting.opened_at, verdicts.collect());
    SittingRecord {
        sitting,
        state: SittingState::Closed,
        closed_at: None,
        lives_until_ms: 0,
        judge: Some(judge),
        drift: None,
        anchor_files: vec![file],
    }
}

fn known(task: &Task, anchor: &Anchor, criterion: usize) -> i64 {
    let name = &task.rubric.criteria[criterion].name;
    anchor.scores[name].as_i64().expect("a whole number")
}

fn last(task: &Task, records: &[SittingRecord], tier: Tier) -> Drift {
    let records: Vec<&SittingRecord> = records.iter().collect();
    let drifts = chart(&records, tier, &task.rubric).expect("charted");
    drifts.last().copied().flatten().expect("enough anchors")
}

#[test]
fn a_judge_who_scores_as_known_raises_no_alarm() {
    let task = tip();
    let exact = sitting(&task, 0, |it, at| known(&task, it, at));
    let drift = last(&task, &[exact], Tier::Expert);
    assert_eq!((drift.alarm, drift.mean_shift), (false, 0.0));
    assert!((drift.slope.expect("a slope").value - 1.0).abs() < 1e-9);
    assert!(drift.charts().is_empty() && drift.seen(Tier::Expert).is_empty());
}

#[test]
fn everything_is_a_three_raises_the_slope_chart_at_once() {
    let task = tip();
    let threes = sitting(&task, 0, |_, _| 3);
    let drift = last(&task, &[threes], Tier::Expert);
    assert!(
        !drift.is_shift_alarm(),
        "the mean is not far off: {drift:?}"
    );
    assert!(
        drift.alarm && drift.charts().contains(&"slope"),
        "{drift:?}"
    );
    let seen = drift.seen(Tier::Expert).join("; ");
    assert!(
        seen.contains("nearly the same scores (slope 0.00"),
        "{seen}"
    );
}

#[test]
fn a_model_that_begins_to_give_threes_is_noticed_and_one_that_always_did_is_not() {
    let task = tip();
    let before = sitting(&task, 0, |it, at| known(&task, it, at));
    let after = |number| sitting(&task, number, |_, _| 3);
    let first = last(&task, &[after(0)], Tier::Auto);
    assert!(!first.alarm);
    assert!(
        first.slope.expect("a slope").value.abs() < 1e-9,
        "{first:?}"
    );
    assert!(!last(&task, &[after(0), after(1)], Tier::Auto).alarm);
    let changed = last(&task, &[before, after(1)], Tier::Auto);
    assert!(changed.charts().contains(&"slope"), "{changed:?}");
}

#[test]
fn a_ceiling_is_said_in_words() {
    let task = tip();
    let generous = sitting(&task, 0, |it, at| known(&task, it, at) + 2);
    let drift = last(&task, &[generous], Tier::Expert);
    let (given, known) = drift.highest.expect("counted");
    assert!(drift.alarm && given > known + 2, "{drift:?}");
    let seen = drift.seen(Tier::Expert).join("; ");
    let words = format!("{given} of 16 cases got the highest score, where {known} should");
    assert!(seen.contains(&words), "{seen}");
}

#[test]
fn more_noise_than_usual_raises_the_spread_chart() {
    let task = tip();
    // Up and down in turn, with every criterion: no shift and no slope.
    let mut turn = 0;
    let noisy = sitting(&task, 0, |it, at| {
        turn += usize::from(at == 0);
        let far = if turn % 2 == 0 { 2 } else { -2 };
        known(&task, it, at) + far
    });
    let drift = last(&task, &[noisy], Tier::Expert);
    assert!(drift.charts().contains(&"spread"), "{drift:?}");
    let seen = drift.seen(Tier::Expert).join("; ");
    assert!(seen.contains("times as much as usual"), "{seen}");
}

/// The share of judges for whom any of 20 sittings raises an alarm, though nothing changes.
fn false_alarms(judges: u64, tier: Tier, noise: f64, bias: f64) -> f64 {
    let task = tip();
    let mut alarms = 0;
    for judge in 0..judges {
        let mut random = SplitMix64::new(1000 + judge);
        let mut uniform = move || random.below(1_000_000) as f64 / 1e6;
        let records: Vec<SittingRecord> = (0..20)
            .map(|number| {
                sitting(&task, number, |it, at| {
                    // The sum of twelve uniforms is nearly normal.
                    let normal: f64 = (0..12).map(|_| uniform()).sum::<f64>() - 6.0;
                    let score = known(&task, it, at) as f64 + bias + noise * normal;
                    #[expect(clippy::cast_possible_truncation, reason = "a score")]
                    let score = score.round() as i64;
                    score
                })
            })
            .collect();
        let records: Vec<&SittingRecord> = records.iter().collect();
        let charted = chart(&records, tier, &task.rubric).expect("charted");
        alarms += usize::from(charted.iter().flatten().any(|it| it.alarm));
    }
    alarms as f64 / judges as f64
}

#[test]
fn false_alarms_over_twenty_sittings_stay_below_a_tenth() {
    // Models: hardly any noise, some, and much, off the known scale or not.
    for (noise, bias) in [(0.15, 0.0), (0.5, 0.6), (0.9, -0.4)] {
        let rate = false_alarms(200, Tier::Auto, noise, bias);
        assert!(rate < 0.1, "noise {noise}, bias {bias}: {rate}");
    }
    // People: without noise, with some, and with what the task states for the mean of three criteria.
    for noise in [0.05, 0.4, 0.8] {
        let rate = false_alarms(200, Tier::Expert, noise, 0.0);
        assert!(rate < 0.1, "people with noise {noise}: {rate}");
    }
}

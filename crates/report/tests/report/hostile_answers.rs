//! Answers of hostile models and judges.

use assize_domain::judge::{Judge, Tier};
use assize_domain::leaderboard::answers::{
    Answers, ByScenario, Example, Opinion, Output, Outputs, PairExamples, PairWins, ScenarioMean,
    ScenarioOutputs, ScenarioRow,
};
use assize_domain::leaderboard::{Leaderboard, Pair, Row, Scores};

use crate::boards::ATTACKS;

/// Answers of hostile models and judges to every pair of a board.
pub fn hostile_answers(board: &Leaderboard) -> Answers {
    let attack = |position: usize| ATTACKS[position % ATTACKS.len()].to_owned();
    let pairs: Vec<Pair> = board.rows.iter().map(Row::pair).collect();
    let example = |position: usize| Example {
        run_id: attack(position),
        scenario: attack(position),
        candidate: 0,
        text: Some(ATTACKS.join("\n")),
        reasons: vec![attack(position + 1)],
        composite: 3.0,
        spread: Some(2.0),
        opinions: vec![Opinion {
            tier: Tier::Expert,
            judge: Judge {
                kind: attack(position),
                name: attack(position + 1),
                version: None,
            },
            composite: 3.0,
            scores: Scores::from([(attack(position), 3.0)]),
            rationale: Some(ATTACKS.join("\n")),
        }],
    };
    let scenario = |(position, pair): (usize, &Pair)| ScenarioRow {
        scenario: attack(position),
        best: vec![pair.clone(); 1 + position % 2],
        diff: Some(position as f64 - 2.0),
        pairs: vec![ScenarioMean {
            pair: pair.clone(),
            mean: 3.0,
            diff: Some(-1.0),
        }],
    };
    let output = |position: usize| Output {
        text: attack(position),
        is_error: position.is_multiple_of(2),
        reasons: attack(position),
        composite: Some(1.0),
    };
    Answers {
        by_scenario: Some(ByScenario {
            challenger: pairs.first().cloned(),
            wins: pairs
                .iter()
                .map(|pair| PairWins {
                    pair: pair.clone(),
                    alone: 1,
                    tied: 1,
                })
                .collect(),
            scenarios: pairs.iter().enumerate().map(scenario).collect(),
        }),
        examples: Some(
            (pairs.iter().enumerate())
                .map(|(position, pair)| PairExamples {
                    pair: pair.clone(),
                    best: vec![example(position)],
                    worst: vec![example(position + 1)],
                    disputed: vec![example(position + 2)],
                })
                .collect(),
        ),
        outputs: Some(Outputs {
            scenarios: vec![ScenarioOutputs {
                scenario: ATTACKS[0].to_owned(),
                cells: (0..pairs.len()).map(|it| vec![output(it)]).collect(),
            }],
            pairs,
            left_out: 1,
        }),
    }
}

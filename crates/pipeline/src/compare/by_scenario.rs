//! Who wins in which scenario.

use assize_domain::leaderboard::answers::{ByScenario, PairWins, ScenarioMean, ScenarioRow};
use assize_domain::leaderboard::{Leaderboard, Pair, Row};

use super::Cells;

/// Means that differ by less are equal: sums of the same scores in another order.
const SAME: f64 = 1e-9;

/// The board once more, scenario by scenario.
pub fn by_scenario(board: &Leaderboard, cells: &Cells) -> ByScenario {
    let pairs: Vec<Pair> = board.rows.iter().map(Row::pair).collect();
    let challenger = challenger(board);
    let scenarios = cells.scenarios.iter().enumerate();
    let mut scenarios: Vec<ScenarioRow> = scenarios
        .map(|(place, id)| {
            row(
                cells,
                &pairs,
                place,
                id,
                board.incumbent.as_ref(),
                challenger.as_ref(),
            )
        })
        .filter(|row| !row.pairs.is_empty())
        .collect();
    scenarios.sort_by(|a, b| {
        let key = |row: &ScenarioRow| row.diff.unwrap_or(f64::NEG_INFINITY);
        key(b)
            .total_cmp(&key(a))
            .then_with(|| a.scenario.cmp(&b.scenario))
    });
    let wins = pairs.into_iter().map(|pair| {
        let won = || scenarios.iter().filter(|row| row.best.contains(&pair));
        let count = |rows: usize| u32::try_from(rows).unwrap_or(u32::MAX);
        let alone = count(won().filter(|row| row.best.len() == 1).count());
        PairWins {
            tied: count(won().count()) - alone,
            alone,
            pair,
        }
    });
    ByScenario {
        wins: wins.collect(),
        challenger,
        scenarios,
    }
}

/// The winner, else the challenger with the highest rank.
fn challenger(board: &Leaderboard) -> Option<Pair> {
    let winner = board.decision.as_ref().and_then(|it| it.winner.clone());
    let incumbent = board.incumbent.as_ref()?;
    let is_challenger = |pair: &Pair| pair != incumbent;
    winner
        .filter(is_challenger)
        .or_else(|| board.rows.iter().map(Row::pair).find(is_challenger))
}

fn row(
    cells: &Cells,
    pairs: &[Pair],
    place: usize,
    id: &str,
    incumbent: Option<&Pair>,
    challenger: Option<&Pair>,
) -> ScenarioRow {
    let mean_of = |pair: &Pair| {
        let known = cells.pairs.iter().position(|it| it == pair)?;
        cells.means[known][place].filter(|it| it.is_finite())
    };
    let base = incumbent.and_then(mean_of);
    let means = pairs.iter().filter_map(|pair| {
        let mean = mean_of(pair)?;
        Some(ScenarioMean {
            diff: base.filter(|_| Some(pair) != incumbent).map(|it| mean - it),
            pair: pair.clone(),
            mean,
        })
    });
    let means: Vec<ScenarioMean> = means.collect();
    let highest = means.iter().map(|it| it.mean).fold(f64::MIN, f64::max);
    let best = means.iter().filter(|it| highest - it.mean < SAME);
    let best: Vec<Pair> = best.map(|it| it.pair.clone()).collect();
    let mut of_challenger = means.iter().filter(|it| Some(&it.pair) == challenger);
    ScenarioRow {
        scenario: id.to_owned(),
        best: if means.len() > 1 { best } else { Vec::new() },
        diff: of_challenger.next().and_then(|it| it.diff),
        pairs: means,
    }
}

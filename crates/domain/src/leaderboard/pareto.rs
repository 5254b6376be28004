//! Quality against latency: the pairs that no other pair beats in both.
//!
//! A pair *beats* another where it is at least as good and at least as fast, and better in one of
//! the two. The frontier is the pairs that no pair beats. It compares means
//! only: it says nothing about significance, and no decision depends on it.

use serde::{Deserialize, Serialize};

use super::{Pair, Row};

/// The pairs on the frontier, best first, and which pairs are dominated by which.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct Pareto {
    pub frontier: Vec<Pair>,
    pub beaten: Vec<Beaten>,
}

/// A pair that some pair of the frontier beats.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct Beaten {
    #[serde(flatten)]
    pub pair: Pair,
    /// Pairs of the frontier, best first.
    pub by: Vec<Pair>,
}

/// A row with its latency.
type Point<'a> = (&'a Row, f64);

impl Pareto {
    /// The frontier of these rows. `None` where fewer than two have a latency, or where every
    /// latency is zero, which means that it was not measured.
    pub fn of(rows: &[Row]) -> Option<Self> {
        let places: Vec<Point<'_>> = rows
            .iter()
            .filter(|row| row.composite.mean.is_finite())
            .filter_map(|row| Some((row, row.latency_ms.filter(|it| it.is_finite())?)))
            .collect();
        if places.len() < 2 || places.iter().all(|(_, latency_ms)| *latency_ms <= 0.0) {
            return None;
        }
        let (frontier, rest): (Vec<Point<'_>>, Vec<Point<'_>>) = places
            .iter()
            .copied()
            .partition(|it| !places.iter().any(|other| beats(*other, *it)));
        let beaten = rest.into_iter().map(|it| Beaten {
            pair: it.0.pair(),
            by: frontier
                .iter()
                .filter(|other| beats(**other, it))
                .map(|(row, _)| row.pair())
                .collect(),
        });
        Some(Self {
            beaten: beaten.collect(),
            frontier: frontier.iter().map(|(row, _)| row.pair()).collect(),
        })
    }

    /// Whether no pair dominates the row's pair. Rows without a latency are not on the frontier.
    pub fn holds(&self, row: &Row) -> bool {
        self.frontier
            .iter()
            .any(|pair| pair.model == row.model && pair.prompt == row.prompt)
    }
}

/// At least as good on both counts, and better on one.
fn beats((a, a_ms): Point<'_>, (b, b_ms): Point<'_>) -> bool {
    let (a, b) = (a.composite.mean, b.composite.mean);
    a >= b && a_ms <= b_ms && (a > b || a_ms < b_ms)
}

#[cfg(test)]
mod tests {
    use super::super::tests::row;
    use super::*;

    fn rows(figures: &[(&str, f64, Option<f64>)]) -> Vec<Row> {
        let made = figures.iter().map(|(model, mean, latency_ms)| Row {
            latency_ms: *latency_ms,
            ..row(model, *mean)
        });
        made.collect()
    }

    fn models(pairs: &[Pair]) -> Vec<&str> {
        pairs.iter().map(|pair| pair.model.as_str()).collect()
    }

    #[test]
    fn who_is_worse_and_slower_is_beaten_by_the_frontier() {
        let rows = rows(&[
            ("best", 12.0, Some(900.0)),
            ("fast", 11.0, Some(200.0)),
            ("slow", 10.0, Some(950.0)),
            ("weak", 9.0, Some(300.0)),
            ("unmeasured", 8.0, None),
        ]);
        let found = Pareto::of(&rows).unwrap();
        assert_eq!(models(&found.frontier), ["best", "fast"]);
        let by: Vec<(&str, Vec<&str>)> = found
            .beaten
            .iter()
            .map(|it| (it.pair.model.as_str(), models(&it.by)))
            .collect();
        assert_eq!(by, [("slow", vec!["best", "fast"]), ("weak", vec!["fast"])]);
        assert!(found.holds(&rows[0]) && !found.holds(&rows[4]));
    }

    #[test]
    fn equals_do_not_beat_each_other() {
        let found = Pareto::of(&rows(&[("a", 1.0, Some(5.0)), ("b", 1.0, Some(5.0))])).unwrap();
        assert_eq!(models(&found.frontier), ["a", "b"]);
        assert!(found.beaten.is_empty());
    }

    #[test]
    fn without_a_measured_latency_there_is_no_frontier() {
        let unmeasured = [("a", 1.0, Some(0.0)), ("b", 2.0, Some(0.0))];
        assert_eq!(Pareto::of(&rows(&unmeasured)), None);
        let alone = [("a", 1.0, Some(9.0)), ("b", f64::NAN, Some(9.0))];
        assert_eq!(Pareto::of(&rows(&alone)), None);
        assert_eq!(Pareto::of(&[]), None);
    }
}

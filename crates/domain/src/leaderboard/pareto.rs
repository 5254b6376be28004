//! Quality against latency or cost: the pairs that no other pair beats in both.
//!
//! A pair *beats* another where it is at least as good and at least as fast (or cheap), and better
//! in one of the two. The frontier is the pairs that no pair beats. It compares means
//! only: it says nothing about significance, and no decision depends on it.

use serde::{Deserialize, Serialize};

use super::{Pair, Row};

/// The pairs on the frontier, best first, and which pairs are dominated by which.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct Pareto {
    /// What quality is weighed against.
    #[serde(default)]
    pub against: Resource,
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

/// What a pair uses up.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, schemars::JsonSchema,
)]
#[serde(rename_all = "snake_case")]
pub enum Resource {
    #[default]
    Latency,
    Cost,
}

impl Resource {
    /// How much of it a row uses, where that was measured: latency in ms, cost in US dollars per
    /// 1,000 candidates.
    pub fn of(self, row: &Row) -> Option<f64> {
        let used = match self {
            Self::Latency => row.latency_ms,
            Self::Cost => row.cost_usd_per_1000,
        };
        used.filter(|it| it.is_finite())
    }

    pub const fn name(self) -> &'static str {
        match self {
            Self::Latency => "latency",
            Self::Cost => "cost",
        }
    }
}

/// A row with what it uses.
type Point<'a> = (&'a Row, f64);

impl Pareto {
    /// Quality against latency, or against cost where latency was not measured.
    pub fn of(rows: &[Row]) -> Option<Self> {
        Self::against(rows, Resource::Latency).or_else(|| Self::against(rows, Resource::Cost))
    }

    /// The frontier of these rows. `None` where fewer than two were measured, or where every
    /// figure is zero, which means that nothing was measured.
    pub fn against(rows: &[Row], against: Resource) -> Option<Self> {
        let places: Vec<Point<'_>> = rows
            .iter()
            .filter(|row| row.composite.mean.is_finite())
            .filter_map(|row| Some((row, against.of(row)?)))
            .collect();
        if places.len() < 2 || places.iter().all(|(_, used)| *used <= 0.0) {
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
            against,
            beaten: beaten.collect(),
            frontier: frontier.iter().map(|(row, _)| row.pair()).collect(),
        })
    }

    /// Whether no pair dominates the row's pair. Rows that were not measured are not on the frontier.
    pub fn holds(&self, row: &Row) -> bool {
        self.frontier
            .iter()
            .any(|pair| pair.model == row.model && pair.prompt == row.prompt)
    }
}

/// At least as good on both counts, and better on one.
fn beats((a, a_used): Point<'_>, (b, b_used): Point<'_>) -> bool {
    let (a, b) = (a.composite.mean, b.composite.mean);
    a >= b && a_used <= b_used && (a > b || a_used < b_used)
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

    #[test]
    fn cost_is_weighed_where_latency_was_not_measured() {
        let mut rows = rows(&[("a", 12.0, None), ("b", 11.0, None), ("c", 10.0, None)]);
        for (row, cost) in rows.iter_mut().zip([2.0, 1.0, 3.0]) {
            row.cost_usd_per_1000 = Some(cost);
        }
        let pareto = Pareto::of(&rows).unwrap();
        assert_eq!(pareto.against, Resource::Cost);
        let frontier: Vec<&str> = pareto.frontier.iter().map(|it| it.model.as_str()).collect();
        assert_eq!(frontier, ["a", "b"]);
        rows[0].latency_ms = Some(10.0);
        rows[1].latency_ms = Some(20.0);
        assert_eq!(Pareto::of(&rows).unwrap().against, Resource::Latency);
        let chosen = Pareto::against(&rows, Resource::Cost).unwrap();
        assert_eq!(chosen.frontier, pareto.frontier);
    }
}

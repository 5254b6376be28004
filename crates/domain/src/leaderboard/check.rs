//! Checks for CI: is the pair to ship good enough, and not worse than the incumbent?
//!
//! A pair *fails* where its mean is below the threshold, or where its whole 95 % interval is
//! below the incumbent on enough scenarios for a test. Only some pairs count for the exit code:
//! the named candidates, else the one that the board says to ship (its winner, else the
//! incumbent). The others are experiments and may be worse.

use super::{Leaderboard, Pair, Row};

/// The conditions.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Check {
    /// The least mean composite.
    pub fail_under: Option<f64>,
    /// The pairs that count; empty for what the board says to ship.
    pub candidates: Vec<Pair>,
    /// Whether "no winner yet" is a failure.
    pub unless_winner: bool,
}

/// The result for one pair.
#[derive(Debug, Clone, PartialEq)]
pub enum Outcome {
    Passed,
    /// Why, a sentence each.
    Failed(Vec<String>),
    /// It does not count: it is neither named nor what the board says to ship.
    Skipped,
}

impl Check {
    /// Whether anything is asked at all.
    pub fn is_asked(&self) -> bool {
        *self != Self::default()
    }

    /// One outcome a row, in the board's order.
    pub fn outcomes(&self, board: &Leaderboard) -> Vec<Outcome> {
        let counting = self.counting(board);
        let outcome = |row: &Row| {
            if !counting.contains(&row.pair()) {
                return Outcome::Skipped;
            }
            let reasons: Vec<String> = [self.under(row), worse(row)]
                .into_iter()
                .flatten()
                .collect();
            if reasons.is_empty() {
                Outcome::Passed
            } else {
                Outcome::Failed(reasons)
            }
        };
        board.rows.iter().map(outcome).collect()
    }

    /// Why the answer is no; empty where it is yes or nothing was asked.
    pub fn objections(&self, board: &Leaderboard) -> Vec<String> {
        let mut objections = Vec::new();
        let winner = board.decision.as_ref().and_then(|it| it.winner.as_ref());
        if self.fail_under.is_some() || !self.candidates.is_empty() {
            let counting = self.counting(board);
            if counting.is_empty() {
                objections.push("nothing is judged, so nothing can be checked".to_owned());
            }
            for pair in counting {
                objections.extend(self.objections_to(board, &pair));
            }
        }
        if self.unless_winner {
            let named = |it: &&Pair| self.candidates.is_empty() || self.candidates.contains(it);
            match winner {
                None => objections.push("there is no winner yet".to_owned()),
                Some(winner) if !named(&winner) => {
                    objections.push(format!("the winner is {winner}, which was not named"));
                }
                Some(_) => {}
            }
        }
        objections
    }

    /// The named candidates, else what the board says to ship.
    fn counting(&self, board: &Leaderboard) -> Vec<Pair> {
        if !self.candidates.is_empty() {
            return self.candidates.clone();
        }
        let winner = board.decision.as_ref().and_then(|it| it.winner.as_ref());
        let shipped = winner.or(board.incumbent.as_ref());
        shipped.cloned().into_iter().collect()
    }

    fn objections_to(&self, board: &Leaderboard, pair: &Pair) -> Vec<String> {
        match board.rows.iter().position(|row| row.pair() == *pair) {
            None => vec![format!("{pair} has no verdicts, so it cannot be checked")],
            Some(place) => match self.outcomes(board).swap_remove(place) {
                Outcome::Failed(reasons) => reasons,
                Outcome::Passed | Outcome::Skipped => Vec::new(),
            },
        }
    }

    fn under(&self, row: &Row) -> Option<String> {
        let least = self.fail_under?;
        let mean = row.composite.mean;
        // NaN is below every threshold.
        let reached = mean >= least;
        (!reached).then(|| format!("{} has {mean:.2}, under {least}", row.pair()))
    }
}

/// Whether a pair is shown to be worse than the incumbent.
fn worse(row: &Row) -> Option<String> {
    let versus = row.vs_incumbent.as_ref()?;
    let [low, high] = versus.worse()?;
    Some(format!(
        "{} is worse than the incumbent by {:.2} [{:.2}, {:.2}]",
        row.pair(),
        -versus.diff,
        -high,
        -low
    ))
}

#[cfg(test)]
mod tests {
    use super::super::tests::{board, row};
    use super::super::{Decision, Versus};
    use super::*;

    fn pair(model: &str) -> Pair {
        row(model, 0.0).pair()
    }

    /// `good` leads, `old` is the incumbent, `bad` is shown to be worse.
    fn example(winner: Option<&str>) -> Leaderboard {
        let mut bad = row("bad", 8.0);
        bad.vs_incumbent = Some(Versus {
            diff: -2.0,
            ci95: Some([-3.0, -1.0]),
            lower95: Some(-2.9),
            scenarios: 8,
            p: Some(1.0),
            p_adjusted: Some(1.0),
            judged_apart: None,
        });
        let mut it = board(vec![row("good", 12.0), row("old", 10.0), bad]);
        it.incumbent = Some(pair("old"));
        it.decision = Some(Decision {
            champion_holds: false,
            winner: winner.map(pair),
            reason: String::new(),
            scenarios_needed: None,
            corrected_diff: None,
        });
        it
    }

    fn under(fail_under: f64) -> Check {
        Check {
            fail_under: Some(fail_under),
            ..Check::default()
        }
    }

    #[test]
    fn a_threshold_is_for_what_the_board_says_to_ship() {
        assert!(under(11.0).objections(&example(Some("good"))).is_empty());
        assert_eq!(
            under(11.0).objections(&example(None)),
            ["old × p has 10.00, under 11"]
        );
        assert!(under(10.0).objections(&example(None)).is_empty());
        assert_eq!(under(1.0).objections(&board(Vec::new())).len(), 1);
    }

    #[test]
    fn named_candidates_must_reach_it_and_not_be_worse() {
        let named = |model: &str| Check {
            candidates: vec![pair(model)],
            ..Check::default()
        };
        assert!(named("good").objections(&example(None)).is_empty());
        assert_eq!(
            named("bad").objections(&example(None)),
            ["bad × p is worse than the incumbent by 2.00 [1.00, 3.00]"]
        );
        assert_eq!(named("unjudged").objections(&example(None)).len(), 1);
        let outcomes = named("good").outcomes(&example(None));
        assert_eq!(
            outcomes,
            [Outcome::Passed, Outcome::Skipped, Outcome::Skipped]
        );
    }

    #[test]
    fn a_winner_can_be_required() {
        let check = Check {
            unless_winner: true,
            ..Check::default()
        };
        assert!(check.objections(&example(Some("good"))).is_empty());
        assert_eq!(check.objections(&example(None)), ["there is no winner yet"]);
        let other = Check {
            candidates: vec![pair("old")],
            ..check
        };
        assert_eq!(other.objections(&example(Some("good"))).len(), 1);
    }

    #[test]
    fn what_is_not_a_number_reaches_no_threshold() {
        let mut it = board(vec![row("nan", f64::NAN)]);
        it.incumbent = Some(pair("nan"));
        assert_eq!(under(f64::NEG_INFINITY).objections(&it).len(), 1);
        assert!(!Check::default().is_asked() && Check::default().objections(&it).is_empty());
    }
}

//! A decision in words.

use assize_domain::judge::Tier;
use assize_domain::leaderboard::{Decision as Sentence, Pair, Versus};
use assize_domain::scenario::Split;
use assize_stats::selection::selection_corrected;
use assize_stats::{MIN_TEST_BLOCKS, paired};

use super::comparability::Obstacle;
use super::decision::{Decision, NoWinner, Rule};
use super::family::Family;
use crate::error::count;

/// What a board is of, for commands that repair it.
#[derive(Debug)]
pub struct Place<'a> {
    pub experiment: &'a str,
    pub tier: Tier,
    pub split: Split,
    /// Whether the incumbent is the champion of the task.
    pub has_champion: bool,
}

impl Place<'_> {
    fn flags(&self) -> String {
        let split = match self.split {
            Split::Selection => String::new(),
            other => format!(" --split {other}"),
        };
        format!(
            "--experiment {} --tier {}{split}",
            self.experiment, self.tier
        )
    }
}

/// The decision as the board states it.
pub fn of(
    decision: &Decision,
    family: &Family,
    means: &[Vec<Option<f64>>],
    pairs: &[Pair],
    rule: Rule,
    place: &Place<'_>,
) -> Sentence {
    let (leader, why) = match *decision {
        Decision::Winner { pair } => {
            return winner(pair, family, pairs, corrected(family, means, pair));
        }
        Decision::NoWinner { leader, why } => (leader, why),
    };
    let Some(incumbent) = family.incumbent.and_then(|it| pairs.get(it)) else {
        return match why {
            NoWinner::NothingJudged => no_winner("nothing is judged.", None),
            _ => no_winner(
                "the incumbent has no judged scenario to compare with.",
                None,
            ),
        };
    };
    let standing = || match leader.and_then(|it| Some((pairs.get(it)?, family.versus(it)?))) {
        Some((pair, versus)) => standing(pair, versus, incumbent),
        None => format!("no challenger shares a judged scenario with {incumbent}."),
    };
    match why {
        NoWinner::NothingJudged | NoWinner::IncumbentNotJudged | NoWinner::NoChallenger => {
            let reason = format!("{incumbent} is alone; collect another pair to compare.");
            no_winner(&reason, None)
        }
        NoWinner::TooFewScenarios { scenarios } => {
            let reason = format!(
                "{} cannot carry a test, because even a clean sweep has p = 1/2^{scenarios}; \
                 {MIN_TEST_BLOCKS} are needed.",
                count(scenarios, "scenario"),
            );
            no_winner(&reason, Some(MIN_TEST_BLOCKS))
        }
        NoWinner::NotComparable(obstacle) => {
            let reason = not_comparable(
                obstacle,
                leader.and_then(|it| pairs.get(it)),
                incumbent,
                place,
            );
            no_winner(&(standing() + &reason), None)
        }
        NoWinner::LeaderIsWorse => {
            let reason = format!("{} More scenarios would not change that.", standing());
            undecided(&reason, None, place.has_champion)
        }
        NoWinner::NotSignificant { scenarios, needed } => {
            let outlook = needed.map(|needed| outlook(needed, scenarios, rule));
            let ahead = leader.and_then(|it| family.versus(it));
            let is_behind = ahead.is_some_and(|it| it.diff <= 0.0 && it.p_adjusted.is_some());
            undecided(
                &(standing() + &outlook.unwrap_or_default()),
                needed,
                place.has_champion && is_behind,
            )
        }
    }
}

/// A correction that keeps more than this of the winner's lead over the others is not worth a sentence.
const NOTABLE_KEEP: f64 = 0.95;

/// The winner's difference after the correction for having been selected, where that changes it.
fn corrected(family: &Family, means: &[Vec<Option<f64>>], winner: usize) -> Option<f64> {
    let incumbent = means.get(family.incumbent?)?;
    let challengers: Vec<usize> = family.challengers().map(|(pair, _)| pair).collect();
    let differences: Vec<Vec<Option<f64>>> = challengers
        .iter()
        .map(|pair| paired::differences(&means[*pair], incumbent))
        .collect();
    let found = selection_corrected(&differences).ok()?;
    let place = challengers.iter().position(|it| *it == winner)?;
    found.differences[place].filter(|_| found.keep < NOTABLE_KEEP)
}

fn winner(pair: usize, family: &Family, pairs: &[Pair], corrected: Option<f64>) -> Sentence {
    let versus = family.versus(pair);
    let p = versus.and_then(|it| it.p_adjusted).unwrap_or(f64::NAN);
    let winner = pairs.get(pair).cloned();
    let challengers = count(family.tested(), "challenger");
    let correction = corrected.map_or_else(String::new, |it| {
        format!(
            " Expect about {it:+.2}: the best of {challengers} looks better than it is, because it was \
             chosen for these scores."
        )
    });
    let reason = format!(
        "{} beats the incumbent by {}, one-sided p {} over {}.{}",
        winner.as_ref().map(ToString::to_string).unwrap_or_default(),
        versus.map(figure).unwrap_or_default(),
        small(p),
        challengers,
        correction.replace('-', "−"),
    );
    Sentence {
        winner,
        reason,
        scenarios_needed: None,
        champion_holds: false,
        corrected_diff: corrected,
    }
}

/// What has to be repeated before a lead counts.
fn not_comparable(
    obstacle: Obstacle,
    leader: Option<&Pair>,
    incumbent: &Pair,
    place: &Place<'_>,
) -> String {
    match obstacle {
        Obstacle::JudgedApart(share) => {
            let pairs =
                leader.map_or_else(String::new, |it| format!("{},{}", it.id(), incumbent.id()));
            format!(
                " It does not count, because {:.0} % of the verdicts on the two come from different judges or \
                 sittings, which may be stricter or kinder: judge both again, side by side (assize judge reopen \
                 {} --pairs {pairs}).",
                share * 100.0,
                place.flags(),
            )
        }
        Obstacle::Settings => " It does not count, because the two were collected with different \
                               settings: collect both with the same settings into another \
                               experiment."
            .to_owned(),
        Obstacle::Failures(share) => format!(
            " It does not count, because the shares of requests that produced nothing differ by {:.0} points \
             of a hundred: what failed may be what was hard.",
            share * 100.0
        ),
    }
}

fn no_winner(why: &str, scenarios_needed: Option<usize>) -> Sentence {
    undecided(why, scenarios_needed, false)
}

/// No challenger wins; `champion_holds` where the champion itself leads.
fn undecided(why: &str, scenarios_needed: Option<usize>, champion_holds: bool) -> Sentence {
    let lead = if champion_holds {
        "Champion holds"
    } else {
        "No winner yet"
    };
    Sentence {
        winner: None,
        reason: format!("{lead}: {why}"),
        scenarios_needed: scenarios_needed.and_then(|needed| u32::try_from(needed).ok()),
        champion_holds,
        corrected_diff: None,
    }
}

/// How the leading challenger compares with the incumbent.
fn standing(leader: &Pair, versus: &Versus, incumbent: &Pair) -> String {
    let figure = figure(versus);
    if versus.p_adjusted.is_none() {
        let shared = count(versus.scenarios as usize, "scenario");
        return format!(
            "the best challenger, {leader}, is {figure}, but shares only {shared} with {incumbent}, \
             and {MIN_TEST_BLOCKS} are needed for a test."
        );
    }
    if versus.diff > 0.0 {
        format!("the best challenger, {leader}, is {figure}.")
    } else {
        format!("no challenger is ahead of {incumbent}; the nearest, {leader}, is {figure}.")
    }
}

/// Whether more scenarios would tell.
fn outlook(needed: usize, scenarios: usize, rule: Rule) -> String {
    let margin = in_points(rule.margin);
    if needed > scenarios {
        let more = needed - scenarios;
        format!(" About {more} more scenarios would show a difference of {margin} with 80 % power.")
    } else {
        format!(" These scenarios are enough to show a difference of {margin} with 80 % power.")
    }
}

fn figure(versus: &Versus) -> String {
    match versus.ci95 {
        Some([low, high]) => format!("{:+.2} [{low:.2}, {high:.2}]", versus.diff),
        None => format!("{:+.2}", versus.diff),
    }
    .replace('-', "−")
}

/// `0.5`, `0.0333`: three digits that count, without zeros at the end.
fn in_points(margin: f64) -> String {
    let places = if margin.abs() >= 0.1 { 2 } else { 4 };
    let text = format!("{margin:.places$}");
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}

/// `= .008` or `< .001`, as papers write a p value.
fn small(p: f64) -> String {
    if p < 0.0005 {
        return "< .001".to_owned();
    }
    format!("= {}", format!("{p:.3}").trim_start_matches('0'))
}

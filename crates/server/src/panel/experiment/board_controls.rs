//! What the board's form offers, and what does not count on the board.

use assize_domain::judge::Tier;
use assize_domain::leaderboard::{BoardTier, Pair};
use assize_domain::scenario::Split;
use assize_domain::sitting::SittingState;
use assize_pipeline::compare::Cells;
use assize_pipeline::seal;

use crate::App;
use crate::panel::fields::Fields;
use crate::panel::page::PageError;

/// One entry of a `select`.
pub(crate) struct Choice {
    pub value: String,
    pub label: String,
    pub is_chosen: bool,
}

/// What the store says about a board besides its runs.
pub(crate) struct Surroundings {
    pub is_unsealed: bool,
    /// Quarantined sittings, whose verdicts do not count.
    pub quarantined: usize,
}

impl Surroundings {
    /// For blocking threads.
    pub fn read(app: &App, experiment: &str) -> Result<Self, PageError> {
        let store = app.tracking.as_ref();
        let sittings = store.sitting_list(experiment)?;
        let is_quarantined = |state: SittingState| state == SittingState::Quarantined;
        let quarantined = sittings.iter().filter(|it| is_quarantined(it.state));
        Ok(Self {
            is_unsealed: seal::is_open(store, experiment)?,
            quarantined: quarantined.count(),
        })
    }
}

/// The splits; confirmation once it is unsealed, or where it is shown.
pub(crate) fn splits(shown: Split, is_unsealed: bool) -> Vec<Choice> {
    let all = Split::ALL.into_iter();
    all.filter(|it| *it != Split::Confirmation || is_unsealed || shown == *it)
        .map(|it| Choice {
            value: it.to_string(),
            label: it.to_string(),
            is_chosen: it == shown,
        })
        .collect()
}

/// The tiers; both together where both have verdicts.
pub(crate) fn tiers(shown: BoardTier, cells: &Cells) -> Vec<Choice> {
    let has = |tier: Tier| cells.tiers.contains(&tier);
    let none = |tier: Tier| if has(tier) { "" } else { " (no verdicts)" };
    let is_combinable = has(Tier::Expert) && has(Tier::Auto);
    let label = |tier: BoardTier| match tier {
        BoardTier::Expert => format!("experts{}", none(Tier::Expert)),
        BoardTier::Auto => format!("automatic judges{}", none(Tier::Auto)),
        BoardTier::Combined => "both together".to_owned(),
    };
    let all = BoardTier::ALL.into_iter();
    all.filter(|it| *it != BoardTier::Combined || is_combinable || shown == *it)
        .map(|it| Choice {
            value: it.to_string(),
            label: label(it),
            is_chosen: it == shown,
        })
        .collect()
}

/// The pairs that can be the incumbent; the first entry leaves the choice to the rule.
pub(crate) fn incumbents(fields: &Fields, cells: &Cells) -> Vec<Choice> {
    let asked = fields.get("incumbent");
    let mut pairs: Vec<&Pair> = cells.pairs.iter().collect();
    pairs.sort();
    let usual = Choice {
        value: String::new(),
        label: "champion, else the first pair".to_owned(),
        is_chosen: asked.is_none(),
    };
    let named = pairs.into_iter().map(|pair| Choice {
        is_chosen: asked == Some(pair.id().as_str()),
        value: pair.id(),
        label: pair.to_string(),
    });
    std::iter::once(usual).chain(named).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sealed_split_and_tiers_without_verdicts_are_not_offered() {
        let values =
            |all: Vec<Choice>| -> Vec<String> { all.into_iter().map(|it| it.value).collect() };
        assert!(!values(splits(Split::Selection, false)).contains(&"confirmation".to_owned()));
        assert!(values(splits(Split::Selection, true)).contains(&"confirmation".to_owned()));
        let mut cells = Cells {
            tiers: vec![Tier::Expert],
            ..Cells::default()
        };
        assert_eq!(values(tiers(BoardTier::Expert, &cells)), ["expert", "auto"]);
        cells.tiers.push(Tier::Auto);
        assert_eq!(tiers(BoardTier::Expert, &cells).len(), 3);
    }
}

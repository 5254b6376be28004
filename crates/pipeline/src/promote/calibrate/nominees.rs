//! Nominees that are put before the gate one after another, beside the same incumbent and on the same
//! scenarios, as the runs of a prompt loop do.

use assize_domain::promotion::Check;
use assize_stats::simulate::seed_of;
use assize_stats::{StatsError, paired};

use super::draw::{Drawn, means};
use super::{Design, spread};
use crate::compare::comparability::Comparability;
use crate::promote::gate::{Confirmation, gate};
use crate::promote::thresholds::Thresholds;

/// How one nominee fared.
#[derive(Debug, Clone, PartialEq)]
pub struct Ruled {
    /// Every check but the confirmation held, so that experts judged the confirmation split.
    pub reached_confirmation: bool,
    pub is_promoted: bool,
    /// Of the gate with the confirmation split.
    pub checks: Vec<Check>,
}

impl Design {
    /// The rulings on nominees with these effects. All pairs are drawn together, so the incumbent's
    /// candidates are the same for all.
    pub fn nominees(
        &self,
        effects: &[f64],
        seed: u64,
        thresholds: &Thresholds,
    ) -> Result<Vec<Ruled>, StatsError> {
        let selection = Self {
            prompts: effects.len() + 1,
            ..self.clone()
        };
        let confirmation = Self {
            scenarios: self.confirmation,
            ..selection.clone()
        };
        let drawn = selection.draw(effects, seed)?;
        let unseen = means(&confirmation.draw(effects, seed_of(seed, 3))?.expert);
        let mut rulings = Vec::with_capacity(effects.len());
        for nominee in 1..=effects.len() {
            let both = |cells: &[Vec<_>]| vec![cells[0].clone(), cells[nominee].clone()];
            let beside = Drawn {
                expert: both(&drawn.expert),
                auto: both(&drawn.auto),
            };
            let own_seed = seed_of(seed, 100 + nominee as u64);
            let mut evidence = self.evidence_of(&beside, own_seed, thresholds);
            let reached_confirmation = gate(&evidence, thresholds).passed;
            let unseen = paired::differences(&unseen[nominee], &unseen[0]);
            evidence.confirmation = Some(Confirmation {
                scenarios: unseen.len(),
                differences: unseen.into_iter().flatten().collect(),
                missing_cells: 0,
                scale: spread(&evidence).unwrap_or(1.0),
                flags: Vec::new(),
                judged_apart: Some(0.0),
                comparability: Comparability::default(),
            });
            let ruling = gate(&evidence, thresholds);
            rulings.push(Ruled {
                reached_confirmation,
                is_promoted: ruling.passed,
                checks: ruling.checks,
            });
        }
        Ok(rulings)
    }
}

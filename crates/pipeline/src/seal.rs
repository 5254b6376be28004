//! The seal of the confirmation split: its scores are shown to nobody before a candidate is
//! nominated.
//!
//! The split can confirm a winner only if nobody chose the winner, the scenarios or the moment by
//! looking at it. Every reader of scores asks here first. The seal is open once an attempt at a
//! promotion has passed all other checks and seen the split ([`is_open`]). Before that, a caller
//! may unseal it for one answer, and the ledger records the look first.
//!
//! What is sealed are scores: composites, criteria, flags, verdicts, and everything computed from
//! them. Outputs, progress and timings are not. MLflow's API cannot be sealed.

use assize_domain::ledger::is_confirmation_open;
use assize_domain::run::{metric, param};
use assize_domain::scenario::Split;
use assize_store::{Ledger, Run};

use crate::ledger::{Author, look};
use crate::{PipelineError, Result};

/// What is shown in place of a sealed figure.
pub const SEALED: &str = "sealed";

/// Whether everybody may see the scores of the confirmation split.
pub fn is_open(store: &dyn Ledger, experiment: &str) -> Result<bool> {
    Ok(is_confirmation_open(&store.ledger_list(experiment)?))
}

/// The splits whose scores everybody may see.
pub fn visible_splits(store: &dyn Ledger, experiment: &str) -> Result<Vec<Split>> {
    let is_open = is_open(store, experiment)?;
    let all = Split::ALL.into_iter();
    Ok(all
        .filter(|it| is_open || *it != Split::Confirmation)
        .collect())
}

/// Permits an answer with the scores of a split, or refuses with [`PipelineError::Sealed`].
/// `unseal` permits it in any case, and records the look if the split is sealed.
pub fn check(
    store: &dyn Ledger,
    experiment: &str,
    split: Split,
    unseal: Option<&Author>,
) -> Result<()> {
    if split != Split::Confirmation || is_open(store, experiment)? {
        return Ok(());
    }
    match unseal {
        Some(author) => look(store, experiment, author),
        None => Err(PipelineError::Sealed {
            experiment: experiment.to_owned(),
        }),
    }
}

/// The seal as it applies to one answer about runs. The ledger is read at the first run of the
/// confirmation split, and one look is recorded however many there are.
#[derive(Debug)]
pub struct RunSeal<'a> {
    store: &'a dyn Ledger,
    unseal: Option<&'a Author>,
    /// For the experiment that was asked about last.
    known: Option<(String, bool)>,
}

impl<'a> RunSeal<'a> {
    pub fn new(store: &'a dyn Ledger, unseal: Option<&'a Author>) -> Self {
        Self {
            store,
            unseal,
            known: None,
        }
    }

    /// Whether the scores of this run must not be shown.
    pub fn hides(&mut self, run: &Run) -> Result<bool> {
        if split_of(run) != Split::Confirmation.as_str() {
            return Ok(false);
        }
        if let Some((experiment, hides)) = &self.known
            && *experiment == run.experiment
        {
            return Ok(*hides);
        }
        let hides = match check(
            self.store,
            &run.experiment,
            Split::Confirmation,
            self.unseal,
        ) {
            Ok(()) => false,
            Err(PipelineError::Sealed { .. }) => true,
            Err(error) => return Err(error),
        };
        self.known = Some((run.experiment.clone(), hides));
        Ok(hides)
    }

    /// Removes the scores of a run that must not be shown; returns whether it did.
    pub fn apply(&mut self, run: &mut Run) -> Result<bool> {
        let hides = self.hides(run)?;
        if hides {
            strip(run);
        }
        Ok(hides)
    }
}

/// The split of a run; runs of older tools do not name it.
pub fn split_of(run: &Run) -> &str {
    let found = run.params.iter().find(|(key, _)| key == param::SPLIT);
    found.map_or(Split::Selection.as_str(), |(_, split)| split)
}

/// Removes the metrics that judges made. No score may have the name of another metric.
fn strip(run: &mut Run) {
    let is_collected = |name: &str| name != metric::COMPOSITE && metric::TAKEN.contains(&name);
    run.metrics.retain(|(name, _)| is_collected(name));
}

#[cfg(test)]
mod tests {
    use assize_domain::ledger::{Entry, Via};
    use assize_domain::run::RunStatus;
    use assize_store::StoreError;

    use super::*;

    /// A ledger that cannot be written.
    #[derive(Debug)]
    struct ReadOnly;

    impl Ledger for ReadOnly {
        fn ledger_list(&self, _: &str) -> assize_store::Result<Vec<Entry>> {
            Ok(Vec::new())
        }

        fn ledger_append(&self, _: &str, _: &Entry) -> assize_store::Result<()> {
            Err(StoreError::Conflict("read-only".to_owned()))
        }
    }

    #[test]
    fn nobody_looks_without_an_entry() {
        let author = Author {
            by: "ana".to_owned(),
            at: "2026-01-01T00:00:00.000Z".to_owned(),
            via: Via::Command,
            entropy: || Ok([7; 16]),
        };
        let asked = |split, unseal| check(&ReadOnly, "e", split, unseal);
        assert!(asked(Split::Selection, None).is_ok());
        let sealed = asked(Split::Confirmation, None);
        assert!(matches!(sealed, Err(PipelineError::Sealed { .. })));
        let unrecorded = asked(Split::Confirmation, Some(&author));
        assert!(matches!(unrecorded, Err(PipelineError::Store(_))));
        let run = Run {
            run_id: "r".to_owned(),
            experiment: "e".to_owned(),
            name: "n".to_owned(),
            status: RunStatus::Finished,
            start_time_ms: 0,
            end_time_ms: None,
            params: vec![("split".to_owned(), "confirmation".to_owned())],
            metrics: Vec::new(),
            tags: Vec::new(),
            artifacts: Vec::new(),
        };
        assert!(RunSeal::new(&ReadOnly, Some(&author)).hides(&run).is_err());
        assert!(RunSeal::new(&ReadOnly, None).hides(&run).unwrap());
    }

    #[test]
    fn only_metrics_of_judges_are_sealed() {
        let names = ["composite", "expert.tone", "tone", "n_failed", "latency_ms"];
        let mut run = Run {
            run_id: "r".to_owned(),
            experiment: "e".to_owned(),
            name: "n".to_owned(),
            status: RunStatus::Finished,
            start_time_ms: 0,
            end_time_ms: None,
            params: Vec::new(),
            metrics: names.map(|it| (it.to_owned(), 1.0)).into(),
            tags: Vec::new(),
            artifacts: Vec::new(),
        };
        strip(&mut run);
        let left: Vec<&str> = run.metrics.iter().map(|(name, _)| &**name).collect();
        assert_eq!(left, ["n_failed", "latency_ms"]);
        assert_eq!(split_of(&run), "selection");
    }
}

//! How long work takes: the one estimate that pages and commands show.
//!
//! Before a collection begins, from how long the experiment's last cell of each model took, else
//! from the models' sizes. While something runs, from its pace so far.

use assize_store::{RunQuery, Runs};
use serde::{Deserialize, Serialize};

use crate::collect::CollectOptions;
use crate::size_gate::SizedModel;

/// Memory that a laptop's CPU reads in a second. Decoding reads every weight once a token.
const BYTES_PER_S: f64 = 10e9;
/// Of a model that is quantised to about 4 bits.
const BYTES_PER_PARAMETER: f64 = 0.6;
/// Candidates are seldom as long as they may be.
const SHARE_OF_MAX_TOKENS: f64 = 0.4;

/// How long a collection takes.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Estimate {
    pub seconds: f64,
    pub basis: Basis,
}

/// What an estimate is made from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Basis {
    /// Every model has cells in this experiment already.
    EarlierCells,
    /// A rough guess, for a CPU.
    ModelSizes,
}

/// How long the missing cells of these models take; `None` where a model holds no weights here
/// and has no earlier cell.
pub fn before(
    options: &CollectOptions,
    models: &[(&SizedModel, u64)],
    store: Option<&dyn Runs>,
) -> Option<Estimate> {
    let mut estimate = Estimate {
        seconds: 0.0,
        basis: Basis::EarlierCells,
    };
    for (model, missing) in models.iter().filter(|(_, missing)| *missing > 0) {
        let earlier = store.and_then(|store| earlier_cell_s(store, options, model));
        let cell_s = if let Some(seconds) = earlier {
            seconds / f64::from(options.values.jobs.max(1))
        } else {
            estimate.basis = Basis::ModelSizes;
            guessed_cell_s(options, model)?
        };
        estimate.seconds += *missing as f64 * cell_s;
    }
    Some(estimate)
}

/// Seconds that a cell of the model takes with all requests in flight, from its last cell in the experiment,
/// else from its size; `None` where there is nothing to go by.
pub(crate) fn cell_s(
    options: &CollectOptions,
    model: &SizedModel,
    store: Option<&dyn Runs>,
) -> Option<f64> {
    let earlier = store.and_then(|store| earlier_cell_s(store, options, model));
    earlier.or_else(|| guessed_cell_s(options, model))
}

fn earlier_cell_s(store: &dyn Runs, options: &CollectOptions, model: &SizedModel) -> Option<f64> {
    let query = RunQuery {
        model: Some(model.id.to_string()),
        newest_first: true,
        max_results: 1,
        ..RunQuery::default()
    };
    let page = store.run_list(&options.values.experiment, &query).ok()?;
    let last = page.runs.into_iter().next()?;
    let took_ms = last.end_time_ms? - last.start_time_ms;
    Some(took_ms.max(0) as f64 / 1000.0)
}

fn guessed_cell_s(options: &CollectOptions, model: &SizedModel) -> Option<f64> {
    let output_s = guessed_output_s(options.values.max_tokens, model)?;
    Some(f64::from(options.values.n_tips) * output_s)
}

/// How long one output takes on a CPU, by the model's size; `None` where it holds no weights here.
pub fn guessed_output_s(max_tokens: u32, model: &SizedModel) -> Option<f64> {
    let holds_weights = model.providers.iter().any(|it| it.host().is_some());
    let bytes = model.parameter_count? as f64 * BYTES_PER_PARAMETER;
    let tokens_per_s = (BYTES_PER_S / bytes).clamp(1.0, 200.0);
    holds_weights.then(|| f64::from(max_tokens) * SHARE_OF_MAX_TOKENS / tokens_per_s)
}

/// Seconds until what is left is done, at the pace so far; `None` before anything is done.
pub fn seconds_left(done: u64, left: u64, elapsed_s: f64) -> Option<f64> {
    (done > 0).then(|| left as f64 * elapsed_s.max(0.0) / done as f64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_pace_so_far_goes_on() {
        assert_eq!(seconds_left(0, 5, 10.0), None);
        assert_eq!(seconds_left(4, 2, 8.0), Some(4.0));
        assert_eq!(seconds_left(4, 0, 8.0), Some(0.0));
    }
}

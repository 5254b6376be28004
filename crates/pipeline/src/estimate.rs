//! How long work takes: the one estimate that pages and commands show.
//!
//! Before a collection begins, from how long the experiment's last cell of each model took, else
//! from the models' sizes. While something runs, from its pace so far.

use assize_providers::Activity;
use assize_store::{RunQuery, Runs};
use serde::{Deserialize, Serialize};

use crate::collect::{CollectOptions, requests_in_flight};
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
            seconds / f64::from(in_flight(options, model))
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

/// Cells of the model that are generated at the same time.
fn in_flight(options: &CollectOptions, model: &SizedModel) -> u32 {
    let provider = model.providers.first();
    provider.map_or(options.values.jobs.max(1), |it| {
        requests_in_flight(options, it.as_ref())
    })
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

/// What is done and what is left of work whose candidates an engine decodes together.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Batched {
    /// Candidates that are complete, and the tokens that were generated for them.
    pub done: u64,
    pub done_tokens: u64,
    pub left: u64,
    /// The most tokens of a candidate.
    pub max_tokens: u32,
}

impl Batched {
    /// Seconds until what is left is done; `None` before the first step.
    ///
    /// The shortest candidates are complete first. So that the estimate does not begin too low and
    /// grow, those that are in the engine count as if they became as long as they may. Prompts take as
    /// long for each candidate as they took so far, which the first ones of a kind make too high.
    pub fn seconds_left(&self, activity: &Activity, elapsed_s: f64) -> Option<f64> {
        let generated = activity.completion_tokens as f64;
        if generated <= 0.0 || activity.step_s <= 0.0 {
            return None;
        }
        let in_batch = u64::from(activity.in_batch).min(self.left);
        let begun = (self.done + in_batch).max(1) as f64;
        let prompt_s = (elapsed_s - activity.step_s).max(0.0) / begun;
        let most = f64::from(self.max_tokens);
        let doubtful = f64::from(activity.sequences.max(1));
        let done_tokens = self.done_tokens as f64;
        let each = (done_tokens + doubtful * most) / (self.done as f64 + doubtful);
        let begun = (generated - done_tokens).max(0.0);
        let tokens = (self.left as f64 * each - begun).max(0.0);
        Some(tokens * activity.step_s / generated + prompt_s * (self.left - in_batch) as f64)
    }
}

/// The time left as it is shown: it falls, and grows only if the estimate has been clearly higher for
/// some seconds, because something has become slower.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Shown {
    left_s: Option<f64>,
    higher_since_s: Option<f64>,
}

impl Shown {
    const HIGHER_BY: f64 = 1.25;
    const HIGHER_FOR_S: f64 = 5.0;

    /// Takes an estimate that was made at `now_s`, and returns what to show.
    pub fn next(&mut self, left_s: f64, now_s: f64) -> f64 {
        let Some(shown_s) = self.left_s.filter(|shown_s| left_s > *shown_s) else {
            self.higher_since_s = None;
            return *self.left_s.insert(left_s);
        };
        if left_s <= shown_s * Self::HIGHER_BY {
            self.higher_since_s = None;
            return shown_s;
        }
        let since_s = *self.higher_since_s.get_or_insert(now_s);
        if now_s - since_s < Self::HIGHER_FOR_S {
            return shown_s;
        }
        self.higher_since_s = None;
        *self.left_s.insert(left_s)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// An engine with 10 sequences that writes 100 tokens a second after two seconds of prompts;
    /// candidates are from 5 to 104 tokens long and may have 128.
    #[test]
    fn an_estimate_of_a_batch_falls() {
        let lengths: Vec<u64> = (0..100).map(|it| 5 + it * 37 % 100).collect();
        let mut running: Vec<(u64, u64)> = Vec::new();
        let mut waiting = lengths.iter();
        let mut work = Batched {
            left: 100,
            max_tokens: 128,
            ..Batched::default()
        };
        let mut activity = Activity {
            sequences: 10,
            ..Activity::default()
        };
        assert_eq!(
            work.seconds_left(&activity, 1.0),
            None,
            "only prompts so far"
        );
        let (mut shown, mut last, mut elapsed_s) = (Shown::default(), f64::INFINITY, 2.0);
        while work.left > 0 {
            while running.len() < 10
                && let Some(length) = waiting.next()
            {
                running.push((*length, *length));
            }
            let step_s = running.len() as f64 / 100.0;
            elapsed_s += step_s;
            activity.step_s += step_s;
            activity.completion_tokens += running.len() as u64;
            activity.in_batch = u32::try_from(running.len()).expect("few");
            for it in &mut running {
                it.1 -= 1;
            }
            for (length, _) in running.extract_if(.., |it| it.1 == 0) {
                work.done += 1;
                work.left -= 1;
                work.done_tokens += length;
            }
            let left_s = work.seconds_left(&activity, elapsed_s).expect("tokens");
            let next = shown.next(left_s, elapsed_s);
            assert!(next <= last, "{next} after {last}");
            assert!(
                (left_s - next) <= next * 0.25 + 0.5,
                "{left_s} shown as {next}"
            );
            last = next;
        }
        assert!(last < 0.1, "{last}");
    }

    #[test]
    fn the_shown_time_grows_only_if_it_stays_higher() {
        let mut shown = Shown::default();
        assert!((shown.next(60.0, 0.0) - 60.0).abs() < 1e-9);
        assert!((shown.next(62.0, 1.0) - 60.0).abs() < 1e-9);
        assert!((shown.next(90.0, 2.0) - 60.0).abs() < 1e-9, "once");
        assert!((shown.next(50.0, 3.0) - 50.0).abs() < 1e-9);
        for now_s in [4.0, 6.0, 8.0] {
            assert!((shown.next(90.0, now_s) - 50.0).abs() < 1e-9);
        }
        assert!((shown.next(90.0, 9.0) - 90.0).abs() < 1e-9, "slower now");
    }

    #[test]
    fn the_pace_so_far_goes_on() {
        assert_eq!(seconds_left(0, 5, 10.0), None);
        assert_eq!(seconds_left(4, 2, 8.0), Some(4.0));
        assert_eq!(seconds_left(4, 0, 8.0), Some(0.0));
    }
}

//! The spending cap of an automatic judge.
//!
//! Before a request is sent, its cost is estimated and reserved: from the prices that the user
//! named, else as much as the most expensive request so far. So the cap holds as far as costs can
//! be known beforehand. While no cost is known, one request is sent alone to find out.

use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};

use assize_providers::{Completion, Message};

/// What a million tokens cost, in US dollars.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Prices {
    pub input_usd: f64,
    pub output_usd: f64,
}

/// A low estimate, so that costs are rather overestimated.
const BYTES_PER_TOKEN: f64 = 2.5;

/// The budget of one sitting.
#[derive(Debug)]
pub(super) struct Budget {
    cap_usd: Option<f64>,
    prices: Option<Prices>,
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct State {
    spent_usd: f64,
    reserved_usd: f64,
    /// The most expensive request so far.
    highest_usd: Option<f64>,
    in_flight: usize,
    /// An answer came without its cost, and no prices were named.
    cost_unknown: bool,
}

/// Why the budget allows no more requests.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum BudgetStop {
    CapReached,
    /// The cap cannot be enforced, because the provider does not report costs.
    CostUnknown,
}

impl Budget {
    pub fn new(cap_usd: Option<f64>, prices: Option<Prices>) -> Self {
        Self {
            cap_usd,
            prices,
            state: Mutex::default(),
            changed: Condvar::new(),
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Reserves what a request may cost, and returns how much that is.
    pub fn reserve(&self, messages: &[Message], max_tokens: u32) -> Result<f64, BudgetStop> {
        let mut state = self.state();
        let Some(cap_usd) = self.cap_usd else {
            state.in_flight += 1;
            return Ok(0.0);
        };
        loop {
            if state.cost_unknown {
                return Err(BudgetStop::CostUnknown);
            }
            let estimate = match self.prices {
                Some(prices) => Some(prices.estimate(messages, max_tokens)),
                None => state.highest_usd,
            };
            match estimate {
                Some(estimate) => {
                    if state.spent_usd + state.reserved_usd + estimate > cap_usd {
                        return Err(BudgetStop::CapReached);
                    }
                    state.reserved_usd += estimate;
                    state.in_flight += 1;
                    return Ok(estimate);
                }
                None if state.in_flight == 0 => {
                    if cap_usd <= 0.0 {
                        return Err(BudgetStop::CapReached);
                    }
                    state.in_flight += 1;
                    return Ok(0.0);
                }
                None => {
                    state = self
                        .changed
                        .wait(state)
                        .unwrap_or_else(PoisonError::into_inner);
                }
            }
        }
    }

    /// Releases a request's reservation, and returns its real cost where it is known.
    pub fn settle(&self, reserved_usd: f64, answer: Option<&Completion>) -> Option<f64> {
        let cost = answer.and_then(|answer| {
            let priced = || self.prices.map(|prices| prices.cost(answer));
            answer.cost_usd.or_else(priced)
        });
        let mut state = self.state();
        state.in_flight = state.in_flight.saturating_sub(1);
        state.reserved_usd -= reserved_usd;
        if let Some(cost) = cost {
            state.spent_usd += cost;
            state.highest_usd = Some(state.highest_usd.unwrap_or(0.0).max(cost));
        }
        state.cost_unknown |= self.cap_usd.is_some() && answer.is_some() && cost.is_none();
        drop(state);
        self.changed.notify_all();
        cost
    }
}

impl Prices {
    pub(crate) fn cost(self, answer: &Completion) -> f64 {
        let (input, output) = (answer.prompt_tokens, answer.completion_tokens);
        (input as f64 * self.input_usd + output as f64 * self.output_usd) / 1e6
    }

    fn estimate(self, messages: &[Message], max_tokens: u32) -> f64 {
        let bytes: usize = messages.iter().map(|message| message.content.len()).sum();
        let input = bytes as f64 / BYTES_PER_TOKEN;
        (input * self.input_usd + f64::from(max_tokens) * self.output_usd) / 1e6
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn answer(cost_usd: Option<f64>) -> Completion {
        Completion {
            cost_usd,
            prompt_tokens: 1_000_000,
            completion_tokens: 500_000,
            ..Completion::default()
        }
    }

    #[test]
    fn the_cap_counts_what_is_in_flight() {
        let budget = Budget::new(Some(0.25), None);
        let first = budget.reserve(&[], 10).expect("nothing is known yet");
        budget.settle(first, Some(&answer(Some(0.10))));
        let second = budget.reserve(&[], 10).expect("0.20 at most");
        assert_eq!(budget.reserve(&[], 10), Err(BudgetStop::CapReached));
        budget.settle(second, None);
        assert!(budget.reserve(&[], 10).is_ok(), "a failure costs nothing");
    }

    #[test]
    fn a_provider_without_reported_costs_needs_named_prices() {
        let budget = Budget::new(Some(1.0), None);
        let first = budget.reserve(&[], 10).expect("one goes alone");
        assert_eq!(budget.settle(first, Some(&answer(None))), None);
        assert_eq!(budget.reserve(&[], 10), Err(BudgetStop::CostUnknown));

        let prices = Prices {
            input_usd: 0.1,
            output_usd: 0.4,
        };
        let budget = Budget::new(Some(1.0), Some(prices));
        let first = budget.reserve(&[], 10).expect("an estimate");
        let cost = budget.settle(first, Some(&answer(None))).expect("a cost");
        assert!((cost - 0.3).abs() < 1e-12, "{cost}");
    }

    #[test]
    fn without_a_cap_every_request_is_allowed() {
        let budget = Budget::new(None, None);
        for _ in 0..3 {
            assert_eq!(budget.reserve(&[], 10), Ok(0.0));
        }
        assert_eq!(budget.settle(0.0, Some(&answer(Some(9.0)))), Some(9.0));
    }
}

//! What a judge may spend.
//!
//! Before a request is sent, what it may cost is set aside: by the prices that the user named,
//! else as much as the dearest request so far. So the cap holds as far as anybody can know
//! beforehand. While nothing is known, one request goes alone to find out.

use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};

use assize_providers::{Completion, Message};

/// What a million tokens cost, in US dollars.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Prices {
    pub input_usd: f64,
    pub output_usd: f64,
}

/// A token is hardly shorter than this.
const BYTES_PER_TOKEN: f64 = 2.5;

/// The money of one sitting.
#[derive(Debug)]
pub(super) struct Purse {
    cap_usd: Option<f64>,
    prices: Option<Prices>,
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct State {
    spent_usd: f64,
    set_aside_usd: f64,
    /// The dearest request so far.
    dearest_usd: Option<f64>,
    in_flight: usize,
    /// An answer came without its cost, and nobody knows the price.
    blind: bool,
}

/// Why nothing more may be spent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Shut {
    CapReached,
    /// The cap cannot be kept, because the provider does not say what it takes.
    CostUnknown,
}

impl Purse {
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

    /// Sets aside what a request may cost; answers how much.
    pub fn set_aside(&self, messages: &[Message], max_tokens: u32) -> Result<f64, Shut> {
        let mut state = self.state();
        let Some(cap_usd) = self.cap_usd else {
            state.in_flight += 1;
            return Ok(0.0);
        };
        loop {
            if state.blind {
                return Err(Shut::CostUnknown);
            }
            let estimate = match self.prices {
                Some(prices) => Some(prices.estimate(messages, max_tokens)),
                None => state.dearest_usd,
            };
            match estimate {
                Some(estimate) => {
                    if state.spent_usd + state.set_aside_usd + estimate > cap_usd {
                        return Err(Shut::CapReached);
                    }
                    state.set_aside_usd += estimate;
                    state.in_flight += 1;
                    return Ok(estimate);
                }
                None if state.in_flight == 0 => {
                    if cap_usd <= 0.0 {
                        return Err(Shut::CapReached);
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

    /// Settles a request that is over; answers its cost, where anybody knows it.
    pub fn settle(&self, set_aside_usd: f64, answer: Option<&Completion>) -> Option<f64> {
        let cost = answer.and_then(|answer| {
            let priced = || self.prices.map(|prices| prices.cost(answer));
            answer.cost_usd.or_else(priced)
        });
        let mut state = self.state();
        state.in_flight = state.in_flight.saturating_sub(1);
        state.set_aside_usd -= set_aside_usd;
        if let Some(cost) = cost {
            state.spent_usd += cost;
            state.dearest_usd = Some(state.dearest_usd.unwrap_or(0.0).max(cost));
        }
        state.blind |= self.cap_usd.is_some() && answer.is_some() && cost.is_none();
        drop(state);
        self.changed.notify_all();
        cost
    }
}

impl Prices {
    fn cost(self, answer: &Completion) -> f64 {
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
        let purse = Purse::new(Some(0.25), None);
        let first = purse.set_aside(&[], 10).expect("nothing is known yet");
        purse.settle(first, Some(&answer(Some(0.10))));
        let second = purse.set_aside(&[], 10).expect("0.20 at most");
        assert_eq!(purse.set_aside(&[], 10), Err(Shut::CapReached));
        purse.settle(second, None);
        assert!(purse.set_aside(&[], 10).is_ok(), "a failure costs nothing");
    }

    #[test]
    fn a_provider_that_hides_its_cost_is_found_out_unless_prices_are_named() {
        let purse = Purse::new(Some(1.0), None);
        let first = purse.set_aside(&[], 10).expect("one goes alone");
        assert_eq!(purse.settle(first, Some(&answer(None))), None);
        assert_eq!(purse.set_aside(&[], 10), Err(Shut::CostUnknown));

        let prices = Prices {
            input_usd: 0.1,
            output_usd: 0.4,
        };
        let purse = Purse::new(Some(1.0), Some(prices));
        let first = purse.set_aside(&[], 10).expect("an estimate");
        let cost = purse.settle(first, Some(&answer(None))).expect("a cost");
        assert!((cost - 0.3).abs() < 1e-12, "{cost}");
    }

    #[test]
    fn without_a_cap_nothing_is_held_back() {
        let purse = Purse::new(None, None);
        for _ in 0..3 {
            assert_eq!(purse.set_aside(&[], 10), Ok(0.0));
        }
        assert_eq!(purse.settle(0.0, Some(&answer(Some(9.0)))), Some(9.0));
    }
}

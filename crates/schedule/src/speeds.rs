//! How long a host takes to load a model and to generate a cell, measured and estimated.
//!
//! A pair (host h, model m) that was measured is estimated by a mean that forgets: the first
//! measurements weigh 1/n, later ones a fifth. A pair that was not measured is estimated by
//! `prior(m) · exp(a(h) + b(m))`: the prior says how models compare (by size, or by earlier
//! cells), a(h) how much slower than the priors the host was with other models, and b(m) how much
//! slower the model was on other hosts. Both effects are fitted to the logarithms of all measured
//! pairs by alternating means; b is drawn towards 0 by one pseudo-observation, so that an error of
//! all priors together belongs to the hosts. A host without measurements has the mean of the others.

/// Measurements become this light at most.
const LEAST_WEIGHT: f64 = 0.2;
const ROUNDS: usize = 4;
/// Times below this are rounding.
const SHORTEST_S: f64 = 1e-6;

/// Seconds by host and model.
#[derive(Debug, Clone)]
pub(crate) struct Table {
    prior: Vec<f64>,
    /// By host, then by model.
    measured: Vec<Vec<Option<Measured>>>,
    host_effects: Vec<f64>,
    model_effects: Vec<f64>,
}

#[derive(Debug, Clone, Copy)]
struct Measured {
    seconds: f64,
    count: u32,
}

impl Table {
    pub(crate) fn new(hosts: usize, prior: Vec<f64>) -> Self {
        let models = prior.len();
        Self {
            prior: prior.into_iter().map(|it| it.max(SHORTEST_S)).collect(),
            measured: vec![vec![None; models]; hosts],
            host_effects: vec![0.0; hosts],
            model_effects: vec![0.0; models],
        }
    }

    pub(crate) fn observe(&mut self, host: usize, model: usize, seconds: f64) {
        let seconds = seconds.max(SHORTEST_S);
        let known = self.measured[host][model].get_or_insert(Measured { seconds, count: 0 });
        known.count = known.count.saturating_add(1);
        let weight = f64::from(known.count).recip().max(LEAST_WEIGHT);
        known.seconds += weight * (seconds - known.seconds);
        self.fit();
    }

    pub(crate) fn estimate(&self, host: usize, model: usize) -> f64 {
        match self.measured[host][model] {
            Some(known) => known.seconds,
            None => self.prior[model] * (self.host_effects[host] + self.model_effects[model]).exp(),
        }
    }

    pub(crate) fn measured(&self, host: usize, model: usize) -> Option<f64> {
        self.measured[host][model].map(|it| it.seconds)
    }

    fn fit(&mut self) {
        let (hosts, models) = (self.measured.len(), self.prior.len());
        let logs: Vec<(usize, usize, f64)> = (0..hosts)
            .flat_map(|host| (0..models).map(move |model| (host, model)))
            .filter_map(|(host, model)| {
                let seconds = self.measured[host][model]?.seconds;
                Some((host, model, (seconds / self.prior[model]).ln()))
            })
            .collect();
        self.model_effects.fill(0.0);
        for _ in 0..ROUNDS {
            let (mut sums, mut counts) = (vec![0.0; hosts], vec![0_u32; hosts]);
            for (host, model, log) in &logs {
                sums[*host] += log - self.model_effects[*model];
                counts[*host] += 1;
            }
            let seen = counts.iter().filter(|it| **it > 0).count().max(1);
            let means: Vec<f64> = sums
                .iter()
                .zip(&counts)
                .map(|(sum, n)| sum / f64::from((*n).max(1)))
                .collect();
            let typical = means.iter().sum::<f64>() / seen as f64;
            for (host, mean) in means.into_iter().enumerate() {
                self.host_effects[host] = if counts[host] > 0 { mean } else { typical };
            }
            let (mut sums, mut counts) = (vec![0.0; models], vec![1_u32; models]);
            for (host, model, log) in &logs {
                sums[*model] += log - self.host_effects[*host];
                counts[*model] += 1;
            }
            for model in 0..models {
                self.model_effects[model] = sums[model] / f64::from(counts[model]);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_measured_is_the_prior() {
        let table = Table::new(2, vec![1.0, 3.0]);
        assert!((table.estimate(1, 1) - 3.0).abs() < 1e-12);
        assert_eq!(table.measured(1, 1), None);
    }

    #[test]
    fn a_slow_host_is_slow_with_models_that_it_has_not_run() {
        let mut table = Table::new(3, vec![1.0, 2.0]);
        table.observe(0, 0, 1.0);
        table.observe(1, 0, 10.0);
        assert!((table.estimate(1, 0) - 10.0).abs() < 1e-12);
        let (fast, slow) = (table.estimate(0, 1), table.estimate(1, 1));
        assert!((slow / fast - 10.0).abs() < 1e-6, "{fast} {slow}");
        let unseen = table.estimate(2, 1);
        assert!(fast < unseen && unseen < slow, "{unseen}");
    }

    #[test]
    fn an_error_of_all_priors_belongs_to_the_hosts() {
        let mut table = Table::new(1, vec![1.0, 2.0, 4.0]);
        table.observe(0, 0, 0.01);
        table.observe(0, 1, 0.02);
        assert!(
            (table.estimate(0, 2) / 0.04 - 1.0).abs() < 0.05,
            "{}",
            table.estimate(0, 2)
        );
    }

    #[test]
    fn later_measurements_replace_earlier_ones() {
        let mut table = Table::new(1, vec![1.0]);
        table.observe(0, 0, 1.0);
        for _ in 0..30 {
            table.observe(0, 0, 5.0);
        }
        assert!((table.estimate(0, 0) - 5.0).abs() < 0.01);
    }
}

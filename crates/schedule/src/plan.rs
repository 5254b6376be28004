//! The plan: the earliest end that the estimates allow, and who does what until then.
//!
//! For a given end T every memory has T seconds, less what it is busy with. Cells are handed out to
//! hosts until all fit or no host has room; a bisection finds the smallest T at which they fit.
//! Models are placed in this order:
//!
//! 1. models that only one host has, because nothing else can give way to them;
//! 2. on each host, the model that it holds: those cells need no load;
//! 3. all others, the largest first: whole on the host where the least time is left over (best
//!    fit), else as many cells as fit on the host that has room for the most, and so on with the rest.
//!
//! Step 3 is the wrap-around rule of `McNaughton` (1959) for divisible jobs, with a load as the price of
//! each division: M models on H hosts are divided at most H − 1 times. Cells are not divisible, so a
//! host gets only as many as it completes before T; a slow host therefore gets none near the end.
//!
//! The final plan has a slightly later end than the earliest one. Within this tolerance models are
//! divided less, and a division is worth its load by more than the error of the estimates.

/// What is to be planned, in seconds from now.
#[derive(Debug)]
pub(crate) struct Problem {
    pub(crate) hosts: Vec<PlannedHost>,
    /// Cells that nobody works on, by model.
    pub(crate) cells: Vec<u64>,
}

#[derive(Debug)]
pub(crate) struct PlannedHost {
    /// Hosts of one memory share its time.
    pub(crate) memory: usize,
    /// Seconds until it can begin something new.
    pub(crate) busy_s: f64,
    pub(crate) holds: Option<usize>,
    /// By model; `None` where the host cannot run it now.
    pub(crate) costs: Vec<Option<Cost>>,
}

/// Seconds.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Cost {
    /// 0 where the host holds the model.
    pub(crate) load: f64,
    /// Between two completed cells.
    pub(crate) cell: f64,
    /// From the start of a cell to its end.
    pub(crate) latency: f64,
}

/// Cells of a model that a host is to do.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Share {
    pub(crate) host: usize,
    pub(crate) model: usize,
    pub(crate) cells: u64,
}

const TOLERANCE: f64 = 0.02;
const PRECISION: f64 = 0.005;
const EPSILON: f64 = 1e-9;

impl Problem {
    /// The plan with the earliest end; models that no host can run now are left out.
    pub(crate) fn solve(&self) -> Vec<Share> {
        let order = self.order();
        if order.is_empty() {
            return Vec::new();
        }
        let (mut low, mut high) = (0.0, self.first_guess(&order));
        let mut best = None;
        // Every model of the order has a host, so a late enough end is always feasible.
        for _ in 0..64 {
            best = self.fill(&order, high);
            if best.is_some() {
                break;
            }
            low = high;
            high *= 2.0;
        }
        while high - low > PRECISION * high {
            let middle = f64::midpoint(low, high);
            if let Some(found) = self.fill(&order, middle) {
                (best, high) = (Some(found), middle);
            } else {
                low = middle;
            }
        }
        let relaxed = self.fill(&order, high * (1.0 + TOLERANCE));
        relaxed.or(best).unwrap_or_default()
    }

    /// Models with cells and a host, in the order in which they are placed, and whether it is their only host.
    fn order(&self) -> Vec<(usize, bool)> {
        let mut models: Vec<(bool, f64, usize)> = Vec::new();
        for (model, cells) in self.cells.iter().enumerate().filter(|(_, it)| **it > 0) {
            let costs = || self.hosts.iter().filter_map(move |it| it.costs[model]);
            let hosts = costs().count();
            if hosts > 0 {
                let fastest = costs().map(|it| it.cell).fold(f64::MAX, f64::min);
                models.push((hosts == 1, *cells as f64 * fastest, model));
            }
        }
        models.sort_by(|one, other| {
            let by_work = other.1.total_cmp(&one.1);
            other.0.cmp(&one.0).then(by_work).then(one.2.cmp(&other.2))
        });
        models
            .into_iter()
            .map(|(only, _, model)| (model, only))
            .collect()
    }

    fn first_guess(&self, order: &[(usize, bool)]) -> f64 {
        let work: f64 = order
            .iter()
            .map(|(model, _)| {
                let costs = self.hosts.iter().filter_map(|it| it.costs[*model]);
                let fastest = costs.map(|it| it.cell).fold(f64::MAX, f64::min);
                self.cells[*model] as f64 * fastest
            })
            .sum();
        (work / self.hosts.len().max(1) as f64).max(1e-3)
    }

    fn fill(&self, order: &[(usize, bool)], end: f64) -> Option<Vec<Share>> {
        let memories = self.hosts.iter().map(|it| it.memory + 1).max().unwrap_or(0);
        let mut filling = Filling {
            problem: self,
            end,
            used: vec![0.0; memories],
            left: self.cells.clone(),
            shares: Vec::new(),
        };
        for host in &self.hosts {
            let used = &mut filling.used[host.memory];
            *used = used.max(host.busy_s);
        }
        let is_complete = order
            .iter()
            .filter(|(_, only)| *only)
            .all(|(model, _)| filling.spread(*model));
        if !is_complete {
            return None;
        }
        filling.keep_loaded();
        let mut rest = order.iter().filter(|(_, only)| !only);
        rest.all(|(model, _)| filling.spread(*model))
            .then_some(filling.shares)
    }
}

struct Filling<'a> {
    problem: &'a Problem,
    end: f64,
    /// Seconds, by memory.
    used: Vec<f64>,
    /// Cells, by model.
    left: Vec<u64>,
    shares: Vec<Share>,
}

impl Filling<'_> {
    /// Hosts go on with what they hold, the fastest first.
    fn keep_loaded(&mut self) {
        let hosts = self.problem.hosts.iter().enumerate();
        let mut holding: Vec<(f64, usize, usize)> = hosts
            .filter_map(|(host, it)| {
                let model = it.holds?;
                Some((it.costs[model]?.cell, host, model))
            })
            .collect();
        holding.sort_by(|one, other| one.0.total_cmp(&other.0).then(one.1.cmp(&other.1)));
        for (_, host, model) in holding {
            self.give(host, model);
        }
    }

    /// Places all cells of a model; `false` if they do not fit.
    fn spread(&mut self, model: usize) -> bool {
        while self.left[model] > 0 {
            let hosts = 0..self.problem.hosts.len();
            let room = hosts.filter_map(|host| {
                let cells = self.room(host, model);
                (cells > 0).then(|| (host, cells, self.slack(host, model)))
            });
            let best = room.reduce(|one, other| {
                let fits = |it: &(usize, u64, f64)| it.1 >= self.left[model];
                let is_better = match (fits(&one), fits(&other)) {
                    (true, true) => other.2 < one.2,
                    (false, false) => other.1 > one.1,
                    (one, other) => other && !one,
                };
                if is_better { other } else { one }
            });
            let Some((host, ..)) = best else {
                return false;
            };
            self.give(host, model);
        }
        true
    }

    fn time_left(&self, host: usize) -> f64 {
        self.end - self.used[self.problem.hosts[host].memory]
    }

    fn has_share(&self, host: usize, model: usize) -> bool {
        let mut shares = self.shares.iter();
        shares.any(|it| it.host == host && it.model == model)
    }

    /// How many cells of the model the host completes before the end.
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "a number of cells that is not negative"
    )]
    fn room(&self, host: usize, model: usize) -> u64 {
        let Some(cost) = self.problem.hosts[host].costs[model] else {
            return 0;
        };
        if self.has_share(host, model) {
            return 0;
        }
        let time = self.time_left(host) - cost.load + EPSILON;
        if time < cost.latency {
            return 0;
        }
        (time / cost.cell).floor() as u64
    }

    /// What would be left over of the host's time if it did all cells that are left of the model.
    fn slack(&self, host: usize, model: usize) -> f64 {
        let cost = self.problem.hosts[host].costs[model];
        let need = cost.map_or(f64::MAX, |it| it.load + it.cell * self.left[model] as f64);
        self.time_left(host) - need
    }

    fn give(&mut self, host: usize, model: usize) {
        let cells = self.room(host, model).min(self.left[model]);
        let Some(cost) = self.problem.hosts[host].costs[model].filter(|_| cells > 0) else {
            return;
        };
        self.used[self.problem.hosts[host].memory] += cost.load + cost.cell * cells as f64;
        self.left[model] -= cells;
        self.shares.push(Share { host, model, cells });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[expect(clippy::unnecessary_wraps, reason = "as the problem has it")]
    const fn cost(load_s: f64, cell_s: f64) -> Option<Cost> {
        Some(Cost {
            load: load_s,
            cell: cell_s,
            latency: cell_s,
        })
    }

    fn host(memory: usize, costs: Vec<Option<Cost>>) -> PlannedHost {
        PlannedHost {
            memory,
            busy_s: 0.0,
            holds: None,
            costs,
        }
    }

    fn of(shares: &[Share], host: usize) -> Vec<(usize, u64)> {
        let own = shares.iter().filter(|it| it.host == host);
        own.map(|it| (it.model, it.cells)).collect()
    }

    #[test]
    fn equal_hosts_get_whole_models() {
        let hosts = (0..2).map(|it| host(it, vec![cost(1.0, 1.0); 2])).collect();
        let shares = Problem {
            hosts,
            cells: vec![10, 10],
        }
        .solve();
        assert_eq!(shares.len(), 2, "{shares:?}");
        assert_ne!(shares[0].host, shares[1].host);
    }

    #[test]
    fn a_model_is_divided_where_that_ends_earlier() {
        let two = |load_s| Problem {
            hosts: (0..2).map(|it| host(it, vec![cost(load_s, 1.0)])).collect(),
            cells: vec![10],
        };
        assert_eq!(two(1.0).solve().len(), 2);
        assert_eq!(two(9.0).solve().len(), 2, "ends at 14 and not at 19");
        let mut held = two(9.0);
        held.hosts[0].holds = Some(0);
        held.hosts[0].costs[0] = cost(0.0, 1.0);
        assert_eq!(
            of(&held.solve(), 0),
            [(0, 10)],
            "a second load would not end earlier"
        );
    }

    #[test]
    fn a_slow_host_gets_what_it_can_finish() {
        let hosts = vec![
            host(0, vec![cost(0.0, 1.0)]),
            host(1, vec![cost(0.0, 10.0)]),
        ];
        let shares = Problem {
            hosts,
            cells: vec![100],
        }
        .solve();
        let slow = of(&shares, 1)[0].1;
        assert!((8..=10).contains(&slow), "{shares:?}");
        let hosts = vec![
            host(0, vec![cost(0.0, 1.0)]),
            host(1, vec![cost(0.0, 10.0)]),
        ];
        let shares = Problem {
            hosts,
            cells: vec![5],
        }
        .solve();
        assert_eq!(of(&shares, 1), [], "its only cell would be the last to end");
    }

    #[test]
    fn a_model_with_one_host_comes_first_there() {
        let hosts = vec![
            host(0, vec![cost(0.0, 1.0), cost(1.0, 1.0)]),
            host(1, vec![cost(1.0, 1.0), None]),
        ];
        let shares = Problem {
            hosts,
            cells: vec![10, 10],
        }
        .solve();
        assert_eq!(of(&shares, 0)[0], (1, 10), "{shares:?}");
    }

    #[test]
    fn hosts_of_one_memory_share_its_time() {
        let hosts = (0..2).map(|_| host(0, vec![cost(1.0, 1.0); 2])).collect();
        let shares = Problem {
            hosts,
            cells: vec![10, 10],
        }
        .solve();
        assert_eq!(shares.len(), 2, "nothing is won by a division: {shares:?}");
    }

    #[test]
    fn a_model_without_a_host_is_left_out() {
        let hosts = vec![host(0, vec![cost(1.0, 1.0), None])];
        let shares = Problem {
            hosts,
            cells: vec![1, 1],
        }
        .solve();
        assert_eq!(shares.len(), 1);
        assert_eq!(
            Problem {
                hosts: Vec::new(),
                cells: vec![1]
            }
            .solve(),
            []
        );
    }
}

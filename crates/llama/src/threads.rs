//! How many threads compute: as many as there are free cores.
//!
//! llama.cpp's threads wait for each other many times in every layer. If another process takes one
//! of their cores, all of them wait until it gives the core back, and decoding is many times slower
//! than with one thread fewer. The number of threads can change between two batches, so it follows
//! what the machine has free: at the start all cores that this process may use (its affinity and its
//! container's quota count), then fewer while other processes are busy, and more when they stop.
//!
//! On Linux the kernel says how busy the cores are. Where it does not, and where a container's quota
//! is shared with other processes, the time of a step tells: if batches become much slower than
//! similar ones were, a thread is dropped for a while, and longer every time that this happens again.

use std::collections::BTreeMap;
use std::thread::available_parallelism;
use std::time::{Duration, Instant};

/// Cores that are less busy than this count as free.
const NEARLY_FREE: f64 = 0.35;
/// How long the cores are watched for one decision.
const WATCH_FOR: Duration = Duration::from_millis(400);
/// A batch is slow if it takes so many times as long as the quickest similar one.
const SLOW: f64 = 3.0;
/// After so many slow batches in a row a thread is dropped.
const SLOW_BATCHES: u32 = 3;
const FIRST_PAUSE: Duration = Duration::from_secs(5);
const LONGEST_PAUSE: Duration = Duration::from_secs(160);

#[derive(Debug)]
pub(crate) struct Threads {
    now: usize,
    most: usize,
    is_fixed: bool,
    /// At the last look.
    free: usize,
    cores: Option<Cores>,
    steps: Steps,
}

impl Threads {
    /// `None` for as many as are free.
    pub(crate) fn new(fixed: Option<usize>) -> Self {
        let most = fixed.unwrap_or_else(|| available_parallelism().map_or(1, usize::from));
        Self {
            now: most.max(1),
            most: most.max(1),
            is_fixed: fixed.is_some(),
            free: most.max(1),
            cores: Cores::new(),
            steps: Steps::default(),
        }
    }

    pub(crate) fn now(&self) -> i32 {
        i32::try_from(self.now).unwrap_or(i32::MAX)
    }

    /// Looks how many cores are free, before a batch.
    pub(crate) fn look(&mut self) {
        if self.is_fixed {
            return;
        }
        if let Some(cores) = &mut self.cores
            && let Some(free) = cores.free()
        {
            self.free = whole(free).clamp(1, self.most);
        }
        let limit = self.steps.limit(self.most, Instant::now());
        self.now = self.free.min(limit);
    }

    /// A batch of so many tokens took so long.
    pub(crate) fn observe(&mut self, tokens: usize, took: Duration) {
        if !self.is_fixed && self.now > 1 {
            self.steps.observe(tokens, took, self.now, Instant::now());
        }
    }
}

#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "a number of cores"
)]
fn whole(free: f64) -> usize {
    (free + NEARLY_FREE).max(0.0) as usize
}

/// Drops threads while batches are slow.
#[derive(Debug, Default)]
struct Steps {
    /// The quickest batch by its size and the number of threads.
    quickest: BTreeMap<(usize, usize), Duration>,
    slow_in_a_row: u32,
    dropped: usize,
    until: Option<Instant>,
    pauses: u32,
}

impl Steps {
    fn limit(&mut self, most: usize, now: Instant) -> usize {
        if self.until.is_some_and(|until| now >= until) {
            self.dropped = 0;
            self.until = None;
        }
        most.saturating_sub(self.dropped).max(1)
    }

    fn observe(&mut self, tokens: usize, took: Duration, threads: usize, now: Instant) {
        let quickest = self.quickest.entry((tokens, threads)).or_insert(took);
        *quickest = (*quickest).min(took);
        if took.as_secs_f64() <= quickest.as_secs_f64() * SLOW {
            self.slow_in_a_row = 0;
            return;
        }
        self.slow_in_a_row += 1;
        if self.slow_in_a_row >= SLOW_BATCHES {
            self.slow_in_a_row = 0;
            self.dropped += (threads / 4).max(1);
            let pause = FIRST_PAUSE * 2_u32.saturating_pow(self.pauses.min(5));
            self.until = Some(now + pause.min(LONGEST_PAUSE));
            self.pauses += 1;
        }
    }
}

/// How busy the cores are that this process may use, as the kernel says.
#[derive(Debug)]
struct Cores {
    ours: Vec<usize>,
    at: Instant,
    last: Ticks,
}

/// Clock ticks since the start, over all our cores.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Ticks {
    all: u64,
    busy: u64,
    own: u64,
}

impl Cores {
    fn new() -> Option<Self> {
        let status = std::fs::read_to_string("/proc/self/status").ok()?;
        let allowed = status
            .lines()
            .find_map(|it| it.strip_prefix("Cpus_allowed_list:"))?;
        let ours = cpu_list(allowed.trim())?;
        let last = Ticks::read(&ours)?;
        Some(Self {
            ours,
            at: Instant::now(),
            last,
        })
    }

    /// The cores that other processes left since the last look; `None` shortly after it.
    fn free(&mut self) -> Option<f64> {
        if self.at.elapsed() < WATCH_FOR {
            return None;
        }
        let now = Ticks::read(&self.ours)?;
        let free = now.free_since(self.last, self.ours.len())?;
        (self.at, self.last) = (Instant::now(), now);
        Some(free)
    }
}

impl Ticks {
    fn read(ours: &[usize]) -> Option<Self> {
        let stat = std::fs::read_to_string("/proc/stat").ok()?;
        let own = std::fs::read_to_string("/proc/self/stat").ok()?;
        Self::parse(&stat, &own, ours)
    }

    fn parse(stat: &str, own: &str, ours: &[usize]) -> Option<Self> {
        let mut ticks = Self {
            all: 0,
            busy: 0,
            own: 0,
        };
        for line in stat.lines() {
            let mut words = line.split_whitespace();
            let cpu = words.next().and_then(|it| it.strip_prefix("cpu"));
            let Some(number) = cpu.and_then(|it| it.parse::<usize>().ok()) else {
                continue;
            };
            if !ours.contains(&number) {
                continue;
            }
            // user nice system idle iowait irq softirq steal; guests are in user already.
            let fields: Vec<u64> = words.take(8).map_while(|it| it.parse().ok()).collect();
            let idle = fields.get(3)? + fields.get(4)?;
            let all: u64 = fields.iter().sum();
            ticks.all += all;
            ticks.busy += all - idle;
        }
        // The name in parentheses may hold spaces.
        let mut fields = own.rsplit_once(')')?.1.split_whitespace().skip(11);
        let user: u64 = fields.next()?.parse().ok()?;
        let system: u64 = fields.next()?.parse().ok()?;
        ticks.own = user + system;
        (ticks.all > 0).then_some(ticks)
    }

    /// The cores that others did not use since then.
    fn free_since(self, then: Self, cores: usize) -> Option<f64> {
        let all = self.all.checked_sub(then.all).filter(|it| *it > 0)?;
        let busy = self.busy.saturating_sub(then.busy);
        let others = busy.saturating_sub(self.own.saturating_sub(then.own));
        let share = others as f64 / all as f64;
        Some(cores as f64 * (1.0 - share))
    }
}

/// `0-3,8` → 0, 1, 2, 3, 8.
fn cpu_list(text: &str) -> Option<Vec<usize>> {
    let mut cpus = Vec::new();
    for part in text.split(',') {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        cpus.extend(first.parse::<usize>().ok()?..=last.parse().ok()?);
    }
    Some(cpus)
}

#[cfg(test)]
mod tests {
    use super::*;

    const OWN: &str = "7 (a) b) R 1 1 1 0 -1 0 0 0 0 0 30 20 0 0 20 0 1";

    #[test]
    fn the_kernels_lists_are_read() {
        assert_eq!(cpu_list("0-2,5"), Some(vec![0, 1, 2, 5]));
        assert_eq!(cpu_list("3"), Some(vec![3]));
        assert_eq!(cpu_list(""), None);
        let stat = "cpu  9 9 9 9 9 9 9 9\ncpu0 10 0 5 80 5 0 0 0 0 0\n\
                    cpu1 90 0 0 10 0 0 0 0 0 0\ncpu2 1 0 0 99 0 0 0 0 0 0\nintr 1 2\n";
        let ticks = Ticks::parse(stat, OWN, &[0, 1]).unwrap();
        let expected = Ticks {
            all: 200,
            busy: 105,
            own: 50,
        };
        assert_eq!(ticks, expected);
        assert_eq!(Ticks::parse("", OWN, &[0]), None);
    }

    #[test]
    fn what_we_use_ourselves_is_free() {
        let zero = Ticks {
            all: 0,
            busy: 0,
            own: 0,
        };
        let free = |busy, own| {
            let now = Ticks {
                all: 200,
                busy,
                own,
            };
            whole(now.free_since(zero, 2).unwrap())
        };
        assert_eq!(free(0, 0), 2);
        assert_eq!(free(200, 200), 2, "only we are busy");
        assert_eq!(free(20, 0), 2, "a little is used by others");
        assert_eq!(free(200, 100), 1, "others use one core");
        assert_eq!(free(200, 50), 0, "others use more than one");
        assert_eq!(zero.free_since(zero, 2), None);
    }

    #[test]
    fn slow_batches_drop_a_thread_for_a_while() {
        let mut steps = Steps::default();
        let start = Instant::now();
        let ms = Duration::from_millis;
        for _ in 0..5 {
            steps.observe(20, ms(100), 4, start);
        }
        steps.observe(20, ms(250), 4, start);
        steps.observe(40, ms(900), 4, start);
        assert_eq!(steps.limit(4, start), 4, "nothing similar was quicker");
        for _ in 0..SLOW_BATCHES {
            steps.observe(20, ms(900), 4, start);
        }
        assert_eq!(steps.limit(4, start), 3);
        assert_eq!(steps.limit(4, start + FIRST_PAUSE), 4);
        for _ in 0..SLOW_BATCHES {
            steps.observe(20, ms(900), 4, start);
        }
        assert_eq!(steps.limit(4, start + FIRST_PAUSE), 3, "longer this time");
        assert_eq!(steps.limit(4, start + FIRST_PAUSE * 2), 4);
    }

    #[test]
    fn a_fixed_number_stays() {
        let mut threads = Threads::new(Some(3));
        for _ in 0..10 {
            threads.look();
            threads.observe(1, Duration::from_secs(9));
        }
        assert_eq!(threads.now(), 3);
    }
}

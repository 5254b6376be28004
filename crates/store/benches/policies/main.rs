//! How long decisions and rewards wait until they are acknowledged, at a fixed rate.
//!
//! An open loop sends 5,000 writes a second, half decisions and half rewards for decisions of a
//! tenth of a second before, for random ones of a million users with models of 12 dimensions. The
//! latency counts from the time at which a write was due. The baseline in the same run, on the same
//! disk and at the same rate, is plain SQLite with one row in one transaction for each write and
//! checkpoints by the writing connection, as SQLite does by default.
//!
//! `cargo bench -p assize-store --bench policies -- [SECONDS [USERS [RATE]]]`

#![expect(clippy::print_stdout, reason = "a benchmark prints its figures")]

mod load;

use std::error::Error;
use std::path::Path;
use std::sync::mpsc::channel;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use assize_store::policies::{
    Durability, ModelWrite, PolicyStore, Reward, RewardAnswer, Updated, wait,
};
use rusqlite::Connection;

use self::load::{Random, decision, model, user};

type Outcome<T> = Result<T, Box<dyn Error>>;

/// Decisions between a decision and its reward.
const DELAY: usize = 250;

struct Plan {
    seconds: u64,
    users: u64,
    rate: u64,
}

impl Plan {
    fn writes(&self) -> u64 {
        self.seconds * self.rate
    }

    /// Calls `send` for every write when it is due, with the time at which it was.
    fn each(&self, mut send: impl FnMut(u64, Instant) -> Outcome<()>) -> Outcome<()> {
        let start = Instant::now();
        for number in 0..self.writes() {
            let due = start + Duration::from_nanos(number * 1_000_000_000 / self.rate);
            let early = due.saturating_duration_since(Instant::now());
            if !early.is_zero() {
                std::thread::sleep(early);
            }
            send(number, due)?;
        }
        Ok(())
    }
}

fn main() -> Outcome<()> {
    let numbers = std::env::args().skip(1).filter_map(|it| it.parse().ok());
    let given: Vec<u64> = numbers.collect();
    let plan = Plan {
        seconds: given.first().copied().unwrap_or(10),
        users: given.get(1).copied().unwrap_or(1_000_000),
        rate: given.get(2).copied().unwrap_or(5_000),
    };
    println!(
        "{} writes a second for {} s, {} users",
        plan.rate, plan.seconds, plan.users
    );
    let dir = tempfile::tempdir()?;
    let base = plain(&dir.path().join("plain.db"), &plan)?;
    base.print("plain SQLite, NORMAL (baseline)", None);
    for (name, durability) in [
        ("store, normal", Durability::Normal),
        ("store, full", Durability::Full),
    ] {
        let path = dir.path().join(format!("{durability:?}.db"));
        let store = PolicyStore::open(&path, durability)?;
        fill(&store, plan.users)?;
        run(&store, &plan)?.print(name, Some(&base));
        let mb = |ending: &str| {
            let name = format!("{}{ending}", path.display());
            std::fs::metadata(name).map_or(0.0, |it| it.len() as f64 / 1024.0 / 1024.0)
        };
        println!(
            "    file {:.0} MB, write-ahead log {:.0} MB, {:.0} MB resident",
            mb(""),
            mb("-wal"),
            resident_mb()
        );
    }
    Ok(())
}

/// Gives every user a model.
fn fill(store: &PolicyStore, users: u64) -> Outcome<()> {
    let all: Vec<u64> = (0..users).collect();
    for chunk in all.chunks(500) {
        let write = |number: &u64| ModelWrite {
            user: user(*number),
            policy: "egreedy-v2".to_owned(),
            arm: String::new(),
            position: 0,
            reset_position: 0,
            model: model(*number),
        };
        let models = chunk.iter().map(write).collect();
        wait(|done| store.model_write(models, None, done))?;
    }
    Ok(())
}

fn run(store: &PolicyStore, plan: &Plan) -> Outcome<Latencies> {
    let latencies = Arc::new(Mutex::new(Vec::new()));
    let (finished, all_finished) = channel::<()>();
    let mut random = Random(7);
    let mut ids = Vec::new();
    let cpu = cpu_seconds();
    plan.each(|number, due| {
        let latencies = Arc::clone(&latencies);
        let finished = finished.clone();
        let record = move || {
            if let Ok(mut latencies) = latencies.lock() {
                latencies.push(due.elapsed());
            }
            drop(finished);
        };
        let rewarded = ids.len().checked_sub(DELAY).and_then(|it| ids.get(it));
        match rewarded {
            Some(id) if number % 2 == 1 => {
                let reward = Reward {
                    decision: *id,
                    policy: None,
                    value: 1.0,
                    at_ms: 1_800_000_000_000,
                    all_arms: false,
                };
                let update = move |_: assize_store::policies::Update<'_>| {
                    Ok(Updated::one(model(number), ()))
                };
                store.reward_apply(reward, update, move |outcome| {
                    assert_eq!(outcome.ok(), Some(RewardAnswer::Applied(())));
                    record();
                });
            }
            _ => {
                let at_ms = 1_800_000_000_000 + i64::try_from(number / 5)?;
                let id = store.decision_id(at_ms, random.next());
                let user = user(random.next() % plan.users);
                store.decision_record(decision(id, user, at_ms), move |outcome| {
                    assert!(outcome.is_ok());
                    record();
                });
                ids.push(id);
            }
        }
        Ok(())
    })?;
    drop(finished);
    // Every write holds a sender until it is acknowledged.
    let _ = all_finished.recv();
    let latencies = std::mem::take(&mut *latencies.lock().map_err(|it| it.to_string())?);
    Ok(Latencies::new(latencies, cpu_seconds() - cpu))
}

/// One row in one transaction for each write.
fn plain(path: &Path, plan: &Plan) -> Outcome<Latencies> {
    let conn = Connection::open(path)?;
    conn.execute_batch(
        "PRAGMA journal_mode = WAL; PRAGMA synchronous = NORMAL;
         CREATE TABLE decision (id INTEGER PRIMARY KEY, user TEXT, record TEXT, reward REAL);
         CREATE INDEX decision_user ON decision (user);",
    )?;
    let mut insert = conn.prepare("INSERT INTO decision (id, user, record) VALUES (?1, ?2, ?3)")?;
    let mut update = conn.prepare("UPDATE decision SET reward = 1.5 WHERE id = ?1")?;
    let mut random = Random(7);
    let mut latencies = Vec::new();
    let mut made: i64 = 0;
    let delay = i64::try_from(DELAY)?;
    let cpu = cpu_seconds();
    plan.each(|number, due| {
        if number % 2 == 1 && made > delay {
            update.execute([made - delay])?;
        } else {
            made += 1;
            let id = assize_store::policies::DecisionId::new(0, 0);
            let decision = decision(id, user(random.next() % plan.users), 0);
            let record = serde_json::to_string(&decision.record)?;
            insert.execute((made, &decision.user, record))?;
        }
        latencies.push(due.elapsed());
        Ok(())
    })?;
    Ok(Latencies::new(latencies, cpu_seconds() - cpu))
}

struct Latencies {
    sorted: Vec<Duration>,
    cpu: f64,
}

impl Latencies {
    fn new(mut latencies: Vec<Duration>, cpu: f64) -> Self {
        latencies.sort_unstable();
        Self {
            sorted: latencies,
            cpu,
        }
    }

    fn ms(&self, permille: usize) -> f64 {
        let last = self.sorted.len().saturating_sub(1);
        let found = self.sorted.get(last * permille / 1000);
        found.map_or(f64::NAN, |it| it.as_secs_f64() * 1e3)
    }

    fn print(&self, what: &str, base: Option<&Self>) {
        let ratio = base.map_or(String::new(), |base| {
            format!(", p99 {:.2} × baseline", self.ms(990) / base.ms(990))
        });
        println!(
            "{what:<32} p50 {:.3} ms, p90 {:.3}, p99 {:.3}, p99.9 {:.3}, max {:.1}{ratio}; {:.1} µs \
             CPU a write",
            self.ms(500),
            self.ms(900),
            self.ms(990),
            self.ms(999),
            self.ms(1000),
            self.cpu * 1e6 / self.sorted.len() as f64
        );
    }
}

/// Seconds that the threads of this process have spent on a processor.
fn cpu_seconds() -> f64 {
    let tasks = std::fs::read_dir("/proc/self/task").into_iter().flatten();
    let nanoseconds: u64 = tasks
        .filter_map(|task| {
            let text = std::fs::read_to_string(task.ok()?.path().join("schedstat")).ok()?;
            text.split_whitespace().next()?.parse::<u64>().ok()
        })
        .sum();
    nanoseconds as f64 / 1e9
}

fn resident_mb() -> f64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find(|line| line.starts_with("VmRSS"));
    let kb = line.and_then(|line| line.split_whitespace().nth(1)?.parse::<f64>().ok());
    kb.unwrap_or(f64::NAN) / 1024.0
}

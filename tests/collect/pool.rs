//! Several hosts with a memory each: they share the work, fail, and come back.

mod failures;
mod schedule;

use std::collections::BTreeSet;
use std::process::Command;
use std::time::Duration;

use serde_json::{Value, json};

use assize_test_support::network::Network;
use assize_test_support::ollama_stand_in::{OllamaStandIn, Pace, StandInModel};
use assize_test_support::openai_stand_in::{Manner, OpenAiStandIn};
use assize_test_support::running::Running;
use assize_test_support::{Outcome, Scratch, write_small_task};

const ALPHA: &str = "alpha:0.5b";
const BETA: &str = "beta:1b";
const GAMMA: &str = "gamma:3b";
const ALL: &str = "alpha:0.5b,beta:1b,gamma:3b";
const SIZES: [(&str, u64); 3] = [
    (ALPHA, 494_032_768),
    (BETA, 999_885_952),
    (GAMMA, 3_212_749_888),
];

/// Hosts with addresses of their own.
struct Pool {
    network: Network,
    hosts: Vec<OllamaStandIn>,
    urls: Vec<String>,
}

impl Pool {
    fn new(hosts: Vec<OllamaStandIn>) -> Self {
        let network = Network::start();
        let urls = hosts.iter().map(|it| network.add(it.address())).collect();
        Self {
            network,
            hosts,
            urls,
        }
    }

    /// As many hosts as this, each with all models and the same pace.
    fn of(count: usize, completion_ms: u64) -> Self {
        let pool = Self::new((0..count).map(|_| host(&[ALPHA, BETA, GAMMA])).collect());
        for host in &pool.hosts {
            for (model, _) in SIZES {
                host.set_pace(model, pace(100, completion_ms));
            }
        }
        pool
    }

    fn command(&self, scratch: &Scratch, models: &str, more: &[&str]) -> Command {
        let urls = self.urls.join(",");
        let mut args = vec!["collect", "--task", "./task", "--experiment", "e", "--json"];
        args.extend(["--n-tips", "1", "--retries", "0"]);
        args.extend(["--ollama-url", &urls, "--models", models]);
        args.extend(more);
        let mut command = scratch.command(&args[..]);
        self.network.connect(&mut command);
        command
    }

    fn start(&self, scratch: &Scratch, models: &str) -> Running {
        Running::spawn(scratch, "collect", self.command(scratch, models, &[]))
    }

    fn run(&self, scratch: &Scratch, models: &str, more: &[&str]) -> Outcome {
        Running::spawn(scratch, "run", self.command(scratch, models, more)).finish()
    }

    /// At most one model was in the memory of each host at every moment, and none is now.
    fn check_memories(&self) {
        for host in &self.hosts {
            assert!(host.most_held_at_once() <= 1, "{:?}", host.held_together());
            assert_eq!(host.held_now(), Vec::<String>::new());
        }
    }
}

fn host(models: &[&str]) -> OllamaStandIn {
    let texts = ["Take a walk.", "Drink some water."];
    let own = SIZES.iter().filter(|(name, _)| models.contains(name));
    OllamaStandIn::start(
        own.map(|(name, count)| StandInModel::new(name, *count, &texts))
            .collect(),
    )
}

fn pace(load_ms: u64, completion_ms: u64) -> Pace {
    Pace {
        load: Duration::from_millis(load_ms),
        completion: Duration::from_millis(completion_ms),
    }
}

/// A task of two prompts and so many scenarios.
fn scratch(scenarios: usize) -> Scratch {
    let scratch = Scratch::new();
    write_small_task(&scratch, scenarios);
    scratch
}

/// The host that made each tracked cell; panics on a cell that is there twice.
fn made_by(scratch: &Scratch) -> Vec<String> {
    let exported = scratch.ok("runs export --experiment e").json_lines();
    let mut cells = BTreeSet::new();
    let mut hosts = Vec::new();
    for record in exported.iter().filter(|it| it["candidate"]["index"] == 0) {
        let cell = ["model", "prompt", "scenario"].map(|key| record["params"][key].to_string());
        assert!(cells.insert(cell), "tracked twice: {record}");
        hosts.push(record["tags"]["host"].as_str().expect("a host").to_owned());
    }
    hosts
}

fn counts(summary: &Value) -> [u64; 4] {
    ["cells", "collected", "skipped", "failed"].map(|key| summary[key].as_u64().expect("a count"))
}

#[test]
fn equal_hosts_divide_the_models_and_runs_name_their_host() {
    let (pool, scratch) = (Pool::of(2, 60), scratch(6));
    let outcome = pool.run(&scratch, "alpha:0.5b,beta:1b", &[]);
    assert_eq!(outcome.code, 0, "{outcome}");
    let summary = outcome.summary();
    assert_eq!(counts(&summary), [24, 24, 0, 0]);
    pool.check_memories();
    let made = made_by(&scratch);
    for (place, url) in pool.urls.iter().enumerate() {
        let host = &summary["hosts"][place];
        let cells = made.iter().filter(|it| *it == url).count();
        assert!(cells > 0, "both work: {summary}");
        assert_eq!(
            (&host["host"], &host["cells"]),
            (&json!(url), &json!(cells))
        );
        assert_eq!(host["loads"], pool.hosts[place].loads().len(), "{summary}");
        assert_eq!(host["failures"], 0);
        assert!(host["seconds"].as_f64().is_some_and(|it| it > 0.0));
        let loads = format!("  {url}  loads ");
        assert!(outcome.stderr.contains(&loads), "{outcome}");
        let line = format!("  {url}  {cells} cells, ");
        assert!(outcome.stderr.contains(&line), "{outcome}");
    }
    let again = pool.run(&scratch, "alpha:0.5b,beta:1b", &[]).summary();
    assert_eq!(
        counts(&again),
        [24, 0, 24, 0],
        "a host is not part of a cell's key"
    );
}

#[test]
fn a_host_is_given_only_the_models_that_it_has() {
    let scratch = scratch(4);
    let pool = Pool::new(vec![host(&[ALPHA, BETA]), host(&[BETA, GAMMA])]);
    for host in &pool.hosts {
        for (model, _) in SIZES {
            host.set_pace(model, pace(50, 40));
        }
    }
    let outcome = pool.run(&scratch, ALL, &[]);
    assert_eq!(outcome.code, 0, "{outcome}");
    assert_eq!(counts(&outcome.summary()), [24, 24, 0, 0]);
    assert!(!pool.hosts[0].loads().contains(&GAMMA.to_owned()));
    assert!(!pool.hosts[1].loads().contains(&ALPHA.to_owned()));
    pool.check_memories();
}

#[test]
fn two_openai_endpoints_share_the_cells() {
    let scratch = scratch(10);
    let manner = Manner {
        verdict: "Take a walk.".to_owned(),
        delay: Duration::from_millis(60),
        cost_usd: None,
    };
    let endpoints = [(); 2].map(|()| OpenAiStandIn::start(manner.clone()));
    let urls = format!("{},{}", endpoints[0].url, endpoints[1].url);
    let outcome = scratch.ok(&[
        "collect",
        "--task",
        "./task",
        "--experiment",
        "e",
        "--json",
        "--n-tips",
        "1",
        "--models",
        "openai:judge",
        "--assume-size",
        "openai:judge=1",
        "--base-url",
        &urls,
    ]);
    assert_eq!(counts(&outcome.summary()), [20, 20, 0, 0]);
    let asked = endpoints.each_ref().map(|it| it.asked().len());
    assert_eq!(asked.iter().sum::<usize>(), 20, "{asked:?}");
    assert!(asked.iter().all(|it| *it >= 5), "{asked:?}");
    let made = made_by(&scratch);
    for (endpoint, asked) in endpoints.iter().zip(asked) {
        let own = made.iter().filter(|it| **it == endpoint.url).count();
        assert_eq!(own, asked);
    }
    let wrong = scratch.fails(
        2,
        "collect --models openai:judge --base-url http://a/v1,nonsense",
    );
    assert!(wrong.stderr.contains("'nonsense'"), "{wrong}");
}

#[test]
fn a_dry_run_says_which_host_would_do_what() {
    let (pool, scratch) = (Pool::of(2, 0), scratch(6));
    let outcome = pool.run(&scratch, "alpha:0.5b,beta:1b", &["--dry-run"]);
    let plan = outcome.json();
    assert_eq!(plan["models"][0]["hosts"], json!(pool.urls), "{plan}");
    let shares = plan["hosts"].as_array().expect("shares");
    let cells: u64 = shares.iter().filter_map(|it| it["cells"].as_u64()).sum();
    assert_eq!(cells, 24, "{plan}");
    for url in &pool.urls {
        assert!(shares.iter().any(|it| it["host"] == json!(url)), "{plan}");
    }
    assert_eq!(plan["loads"], shares.len());
    for host in &pool.hosts {
        assert_eq!(host.loads(), Vec::<String>::new());
    }
}

#[test]
fn a_model_that_differs_between_hosts_is_refused_before_anything_is_generated() {
    let scratch = scratch(2);
    let other = StandInModel {
        build: "-newer".to_owned(),
        ..StandInModel::new(ALPHA, 494_032_768, &["Walk."])
    };
    let pool = Pool::new(vec![host(&[ALPHA]), OllamaStandIn::start(vec![other])]);
    let outcome = pool.run(&scratch, ALPHA, &[]);
    assert_eq!(outcome.code, 2, "{outcome}");
    for words in [
        pool.urls[0].as_str(),
        &pool.urls[1],
        "digest",
        "ollama pull alpha:0.5b",
        "--ollama-url",
    ] {
        assert!(outcome.stderr.contains(words), "{outcome}");
    }
    assert!(pool.hosts.iter().all(|it| it.loads().is_empty()));
}

#[test]
fn after_a_kill_the_same_command_goes_on_without_a_cell_twice() {
    let (pool, scratch) = (Pool::of(2, 60), scratch(8));
    let mut running = pool.start(&scratch, ALL);
    running.wait_for_stdout(|said| {
        let mut hosts = pool.urls.iter();
        said.lines().count() >= 4 && hosts.all(|it| said.contains(it))
    });
    running.kill();
    let outcome = pool.run(&scratch, ALL, &[]);
    assert_eq!(outcome.code, 0, "{outcome}");
    let [cells, collected, skipped, failed] = counts(&outcome.summary());
    assert_eq!((cells, collected + skipped, failed), (48, 48, 0));
    assert!(skipped >= 4, "what was made before is kept: {skipped}");
    assert_eq!(made_by(&scratch).len(), 48);
    pool.check_memories();
}

#[test]
fn two_collectors_on_two_hosts_make_exactly_the_grid() {
    let (pool, scratch) = (Pool::of(2, 40), scratch(6));
    let one = Running::spawn(&scratch, "one", pool.command(&scratch, ALL, &[]));
    let other = Running::spawn(&scratch, "other", pool.command(&scratch, ALL, &[]));
    let outcomes = [one.finish(), other.finish()];
    let mut collected = 0;
    for outcome in &outcomes {
        assert_eq!(outcome.code, 0, "{outcome}");
        let [cells, made, skipped, failed] = counts(&outcome.summary());
        assert_eq!((cells, made + skipped, failed), (36, 36, 0), "{outcome}");
        collected += made;
    }
    assert_eq!(collected, 36);
    let completions: usize = pool.hosts.iter().map(|it| it.completions().len()).sum();
    assert_eq!(completions, 36, "no cell is generated twice");
    assert_eq!(made_by(&scratch).len(), 36);
    pool.check_memories();
}

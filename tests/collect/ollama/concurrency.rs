//! Concurrent requests, hosts and processes; and the default models where none is named.

use serde_json::json;

use super::{ALPHA, BETA, CELLS, GAMMA, TIPS, collect, counts, host, scratch, tracked_cells};
use assize_test_support::Outcome;
use assize_test_support::ollama_stand_in::{OllamaStandIn, StandInModel};
use assize_test_support::running::Running;

#[test]
fn requests_in_flight_are_as_many_as_asked_for() {
    for (jobs, wanted) in [(None, 1), (Some("4"), 4)] {
        let (host, scratch) = (host(), scratch());
        let url = host.url();
        let more: Vec<&str> = jobs.iter().flat_map(|jobs| ["-j", jobs]).collect();
        host.pause_after(0);
        let running = Running::start(
            &scratch,
            "collect",
            &collect(&url, "alpha:0.5b,beta:1b", &more),
        );
        host.wait_for_completions(wanted);
        host.resume();
        let outcome = running.finish();
        assert_eq!(outcome.code, 0, "{outcome}");
        assert_eq!(counts(&outcome.summary()), [12, 12, 0, 0]);
        assert_eq!(host.most_in_flight(), wanted);
        assert_eq!(host.loads(), [ALPHA, BETA]);
        assert_eq!(host.most_held_at_once(), 1);
        assert_eq!(tracked_cells(&scratch).len(), 2 * CELLS);
    }
}

/// Both stand-ins are on this machine, so they share its memory: there is never a model in one
/// beside a model in the other, and each model is loaded once.
#[test]
fn two_hosts_of_one_memory_take_turns() {
    let scratch = scratch();
    let hosts = [host(), host()];
    let urls = format!("{},{}", hosts[0].url(), hosts[1].url());
    for host in &hosts {
        host.pause_after(0);
    }
    let models = "alpha:0.5b,beta:1b,gamma:3b";
    let running = Running::start(&scratch, "collect", &collect(&urls, models, &[]));
    hosts[0].wait_for_completions(1);
    std::thread::sleep(std::time::Duration::from_secs(1));
    let loaded: Vec<String> = hosts.iter().flat_map(OllamaStandIn::loads).collect();
    assert_eq!(loaded.len(), 1, "one memory, one model: {loaded:?}");
    for host in &hosts {
        host.resume();
    }
    let outcome = running.finish();
    assert_eq!(outcome.code, 0, "{outcome}");
    let summary = outcome.summary();
    assert_eq!(counts(&summary), [18, 18, 0, 0]);
    assert_eq!(summary["model_loads"], json!({ALPHA: 1, BETA: 1, GAMMA: 1}));
    let completions = hosts.iter().map(|host| host.completions().len());
    assert_eq!(completions.sum::<usize>(), 3 * CELLS * TIPS);
    for host in &hosts {
        assert!(host.most_held_at_once() <= 1);
        assert_eq!(host.held_now(), Vec::<String>::new());
    }
}

#[test]
fn a_model_goes_to_the_host_that_has_it() {
    let scratch = scratch();
    let one = |name| OllamaStandIn::start(vec![StandInModel::new(name, 500_000_000, &["Walk."])]);
    let (left, right) = (one(ALPHA), one(BETA));
    let urls = format!("{},{}", left.url(), right.url());
    let summary = scratch
        .ok(&collect(&urls, "alpha:0.5b,beta:1b", &[]))
        .summary();
    assert_eq!(counts(&summary), [12, 12, 0, 0]);
    assert_eq!(
        (left.loads(), right.loads()),
        (vec![ALPHA.to_owned()], vec![BETA.to_owned()])
    );
}

#[test]
fn two_collectors_make_exactly_the_grid() {
    let (host, scratch) = (host(), scratch());
    let url = host.url();
    let args = collect(&url, "alpha:0.5b,beta:1b", &[]);
    host.pause_after(1);
    let first = Running::start(&scratch, "first", &args);
    host.wait_for_completions(2);
    let mut second = Running::start(&scratch, "second", &args);
    second.wait_for_stderr(|said| said.contains("which works on the same cells"));
    host.resume();
    let outcomes = [first.finish(), second.finish()];
    let mut collected = 0;
    for outcome in &outcomes {
        assert_eq!(outcome.code, 0, "{outcome}");
        let [cells, made, skipped, failed] = counts(&outcome.summary());
        assert_eq!((cells, made + skipped, failed), (12, 12, 0));
        collected += made;
    }
    assert_eq!(collected, 12);
    assert_eq!(
        host.completions().len(),
        2 * CELLS * TIPS,
        "no cell is generated twice"
    );
    assert_eq!(tracked_cells(&scratch).len(), 2 * CELLS);
    assert_eq!(host.loads(), [ALPHA, BETA]);
    assert_eq!(host.most_held_at_once(), 1);
}

/// Two projects of one user collect from one host: they take turns in its memory.
#[test]
fn collectors_of_different_folders_take_turns_in_a_hosts_memory() {
    let host = host();
    let (here, there) = (scratch(), scratch());
    let url = host.url();
    host.pause_after(1);
    let first = Running::start(&here, "first", &collect(&url, ALPHA, &[]));
    host.wait_for_completions(2);
    let mut command = there.command(&collect(&url, BETA, &[]));
    command.env("ASSIZE_CACHE_DIR", here.file("cache"));
    let mut second = Running::spawn(&there, "second", command);
    second.wait_for_stderr(|said| said.contains("waits for another Assize process"));
    second.wait_for_stderr(|said| {
        let folder = here.path().canonicalize().expect("a path");
        let who = format!("process {} (`assize collect --task ./task", first.id());
        let place = format!("in {}, since 20", folder.display());
        let said = said.replace('\n', " ");
        said.contains(&who) && said.contains(&place)
    });
    // Who does not want to wait is told so, too.
    let mut command = there.command(&collect(&url, GAMMA, &["--wait", "0"]));
    command.env("ASSIZE_CACHE_DIR", here.file("cache"));
    let impatient = Outcome::of(&command.output().expect("the binary runs"));
    assert_eq!(impatient.code, 1, "{impatient}");
    let words = format!("process {}", first.id());
    assert!(impatient.stderr.contains(&words), "{impatient}");
    assert!(impatient.stderr.contains("--wait"), "{impatient}");
    assert_eq!(host.loads(), [ALPHA]);
    host.resume();
    let (first, second) = (first.finish(), second.finish());
    assert_eq!((first.code, second.code), (0, 0), "{first}\n{second}");
    assert_eq!(host.loads(), [ALPHA, BETA]);
    assert_eq!(host.most_held_at_once(), 1);
}

#[test]
fn where_ollama_answers_its_small_models_are_the_default() {
    let sizes = [
        ("qwen2.5:0.5b", 494_032_768),
        ("qwen2.5:1.5b", 1_777_088_000),
        ("gemma3:1b", 999_885_952),
        ("llama3.2:3b", 3_212_749_888),
    ];
    let models = sizes
        .map(|(name, count)| StandInModel::new(name, count, &["Walk."]))
        .to_vec();
    let (host, scratch) = (OllamaStandIn::start(models), scratch());
    let url = host.url();
    let args = [
        "collect",
        "--task",
        "./task",
        "--n-tips",
        "1",
        "--json",
        "--ollama-url",
        &url,
    ];
    let summary = scratch.ok(&args).summary();
    assert_eq!(counts(&summary), [24, 24, 0, 0]);
    assert_eq!(host.loads(), sizes.map(|(name, _)| name));
}

#[test]
fn where_no_ollama_answers_the_embedded_model_is_the_default() {
    let (gone, scratch) = (host().url(), scratch());
    let args = ["collect", "--task", "./task", "--ollama-url", &gone];
    let outcome = scratch.run(&args);
    let said = format!("No Ollama answers at {gone}: using embedded:smollm2-135m");
    assert!(outcome.stderr.contains(&said), "{outcome}");
    // The scratch folder has no weights, and a build without the engine could not use them.
    let (code, remedy) = if cfg!(feature = "embedded") {
        (1, "assize models pull smollm2-135m")
    } else {
        (2, "no embedded engine")
    };
    assert_eq!(outcome.code, code, "{outcome}");
    assert!(outcome.stderr.contains(remedy), "{outcome}");
}

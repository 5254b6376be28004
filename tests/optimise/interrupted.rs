//! Steps that are killed, that run at the same time, or whose tracking server is unreachable.
//!
//! `ASSIZE_STRESS_KILLS` sets how often a step is killed; the ordinary tests do it a few times,
//! `make stress` two hundred.

use std::process::Stdio;
use std::time::Duration;

use assize_test_support::random::Random;
use assize_test_support::server::Served;
use assize_test_support::{Outcome, Scratch};
use serde_json::json;

use crate::fixture::{STEP, fixing_rounds, judge, lineage, scratch, scratch_with, start, step};

const JUDGE: &str = "{\"noise\": 0.3, \"seed\": 1}";

/// The lineage of a loop that nobody disturbs.
fn undisturbed() -> String {
    let scratch = scratch_with(
        &fixing_rounds(),
        &serde_json::from_str(JUDGE).expect("JSON"),
        0,
    );
    start(&scratch, "");
    play(&scratch, |scratch| {
        step(scratch);
    });
    lineage(&scratch)
}

/// Steps and judges until the loop has ended.
fn play(scratch: &Scratch, mut advance: impl FnMut(&Scratch)) {
    for file in ["selection.json", "confirmation.json"] {
        advance(scratch);
        judge(scratch, file);
    }
    advance(scratch);
}

#[test]
fn a_loop_killed_anywhere_makes_the_same_tree() {
    let kills: usize = std::env::var("ASSIZE_STRESS_KILLS")
        .ok()
        .and_then(|text| text.parse().ok())
        .unwrap_or(12);
    let expected = undisturbed();
    let mut random = Random::new(5);
    let (mut tried, mut killed) = (0, 0);
    while killed < kills && tried < 20 * kills {
        let judge = json!({"noise": 0.3, "seed": 1, "latency_ms": 1});
        let scratch = scratch_with(&fixing_rounds(), &judge, 2);
        start(&scratch, "");
        play(&scratch, |scratch| {
            for _ in 0..3 {
                tried += 1;
                killed += usize::from(kill(scratch, &mut random));
            }
            step(scratch);
        });
        assert_eq!(lineage(&scratch), expected);
        let runs = scratch
            .ok("runs list --experiment e.search --limit 0 --json")
            .json();
        // The seed and what the children of two rounds were raced on, once each.
        assert_eq!(runs["runs"].as_array().map(Vec::len), Some(32));
    }
    assert!(killed > 0, "no kill met a living process");
    eprintln!("{killed} of {tried} kills met a living step");
}

/// Starts a step and kills it after a while; whether it was still alive.
fn kill(scratch: &Scratch, random: &mut Random) -> bool {
    let mut child = scratch
        .command(STEP)
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .expect("the binary runs");
    std::thread::sleep(Duration::from_micros(random.number() % 250_000));
    let is_alive = child.try_wait().expect("a status").is_none();
    child.kill().expect("SIGKILL");
    child.wait().expect("an end");
    is_alive
}

#[test]
fn one_event_at_a_time_makes_the_same_tree() {
    let expected = undisturbed();
    let scratch = scratch_with(
        &fixing_rounds(),
        &serde_json::from_str(JUDGE).expect("JSON"),
        0,
    );
    start(&scratch, "");
    play(&scratch, |scratch| {
        let mut before = String::new();
        loop {
            scratch.run(format!("{STEP} --once").as_str());
            let now = lineage(scratch);
            if now == before {
                break;
            }
            before = now;
        }
    });
    assert_eq!(lineage(&scratch), expected);
}

#[test]
fn a_second_step_at_the_same_time_is_refused() {
    let scratch = scratch_with(&fixing_rounds(), &json!({"latency_ms": 100}), 0);
    start(&scratch, "");
    let both = [(); 2].map(|()| {
        let mut step = scratch.command(STEP);
        let step = step.stdout(Stdio::piped()).stderr(Stdio::piped());
        step.spawn().expect("the binary runs")
    });
    // Each takes longer than both need to begin.
    let mut ended = both.map(|it| Outcome::of(&it.wait_with_output().expect("its output")));
    ended.sort_by_key(|it| it.code);
    assert_eq!((ended[0].code, ended[1].code), (0, 2), "{ended:?}");
    assert!(ended[1].stderr.contains("another step"), "{}", ended[1]);
    assert_eq!(ended[0].json()["waiting_for"], "judge");
}

#[test]
fn an_unreachable_tracking_server_is_an_error_and_the_loop_goes_on_later() {
    let server = Scratch::new();
    let port = assize_test_support::limits::free_port();
    let serve = format!("serve --port {port} --json --open-loopback");
    let first = Served::start_with(&server, &serve);
    let scratch = scratch(&fixing_rounds());
    start(&scratch, &format!("--tracking-uri http://127.0.0.1:{port}"));
    first.kill();
    let failed = scratch.fails(1, STEP);
    assert!(failed.stderr.contains("unreachable"), "{failed}");
    let _again = Served::start_with(&server, &serve);
    assert_eq!(step(&scratch)["waiting_for"], "judge");
}

//! `kill -9` of a judge: accepted verdicts stay, and leased cases pass to the next judge.

use std::io::{BufRead as _, BufReader, Write as _};
use std::path::Path;
use std::process::{Command, Stdio};

use crate::sittings::{LEASE_MS, at, clear, open, open_store, scored, sit, store_of};
use assize_store::RunQuery;
use assize_test_support::Scratch;

const STORE: &str = "ASSIZE_TEST_STORE";
const ROUND: &str = "ASSIZE_TEST_ROUND";

/// Judges one case after the other and says which were accepted, until it is killed.
#[test]
#[ignore = "a child process: `cargo test --test faults killed_judge` starts it by the test below"]
fn child_judges_until_it_is_killed() {
    let path = std::env::var(STORE).expect("the test below says where the store is");
    let round = std::env::var(ROUND).expect("the test below numbers its judges");
    let now = at(round.parse::<i64>().expect("a number") * 10 * LEASE_MS);
    let mut queue = open(&open_store(Path::new(&path)), sit(&round), &now);
    while let Some(case) = queue.next(1, &now).expect("cases").pop() {
        queue.submit(&[scored(&case, 3)], &now).expect("accepted");
        writeln!(std::io::stdout(), "accepted {}", case.case).expect("a pipe");
    }
}

#[test]
fn a_killed_judge_loses_at_most_the_case_in_hand() {
    const ROUNDS: usize = 6;
    let scratch = Scratch::collected(8, 5);
    let path = scratch.file(".assize/assize.db");
    let mut accepted = 0;
    for round in 0..ROUNDS {
        let mut judge = Command::new(std::env::current_exe().expect("this test"))
            .args(["--ignored", "--exact", "--nocapture"])
            .arg("killed_judge::child_judges_until_it_is_killed")
            .env(STORE, &path)
            .env(ROUND, round.to_string())
            .stdout(Stdio::piped())
            .spawn()
            .expect("a judge");
        let lines = BufReader::new(judge.stdout.take().expect("a pipe")).lines();
        let mut said = lines
            .map_while(Result::ok)
            .filter(|it| it.contains("accepted "));
        accepted += said.by_ref().take(3 + 2 * round).count();
        judge.kill().expect("killed");
        judge.wait().expect("dead");
        accepted += said.count();
    }
    let store = store_of(&scratch);
    let verdicts = || -> Vec<usize> {
        let runs = store
            .run_list("e", &RunQuery::default())
            .expect("runs")
            .runs;
        let of_run = |run: &assize_store::Run| -> usize {
            let files = store.verdicts_get(&run.run_id).expect("verdicts");
            files.iter().map(|file| file.verdicts.len()).sum()
        };
        runs.iter().map(of_run).collect()
    };
    let kept: usize = verdicts().iter().sum();
    assert!(accepted >= ROUNDS * 3, "judges got to work: {accepted}");
    assert!(
        (accepted..=accepted + ROUNDS).contains(&kept),
        "{accepted} accepted, {kept} kept"
    );
    let later = at(1000 * LEASE_MS);
    let mut next = open(&store, sit("next"), &later);
    assert_eq!(clear(&mut next, 7, &later) + kept, 240);
    assert!(verdicts().iter().all(|count| *count == 5), "each case once");
}

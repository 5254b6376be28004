//! Pairs are judged side by side where they can be: the order of scenarios, reopened pairs, and
//! judges that score their own model.

use std::collections::{BTreeMap, BTreeSet};

use assize_pipeline::judge::queue::Queue;
use assize_test_support::server::Served;
use assize_test_support::{Scratch, score_all, script};
use serde_json::Value;

use crate::sittings::{at, open, scored, sit, store_of};
use crate::{pending, status};

/// Runs of the experiment `e`, each with its scenario, its pair and its expert's state.
fn runs(scratch: &Scratch) -> Vec<(String, String, bool)> {
    let runs = scratch.ok("runs export --experiment e").json_lines();
    let text = |run: &Value, key: &str| run["params"][key].as_str().expect(key).to_owned();
    runs.iter()
        .map(|run| {
            let pair = format!("{}/{}", text(run, "model"), text(run, "prompt"));
            let judged = run["tags"]["judge_pending"] == "false";
            (text(run, "scenario"), pair, judged)
        })
        .collect()
}

/// Model `b` on one scenario, which is judged, then `a` and `b` on two. So only one pair waits in
/// the scenario that waits longest, and both in the other.
fn collected_at_different_times(judge: impl Fn(&Scratch)) -> Scratch {
    let scratch = Scratch::new();
    collect_at_different_times(&scratch, judge);
    scratch
}

fn collect_at_different_times(scratch: &Scratch, judge: impl Fn(&Scratch)) {
    let verdict = r#"{"reason":"r","relevance":3,"actionability":3,"tone":3}"#;
    let models = [
        ("a", &["Walk now."][..]),
        ("b", &["Eat."]),
        ("judge", &[verdict]),
    ];
    scratch.write("script.json", &script(&models));
    let collect = |model: &str, scenarios: usize| {
        scratch.ok(&format!(
            "collect --models scripted:{model} --prompts v1 --n-tips 1 --n-scenarios {scenarios} \
             --script script.json --experiment e"
        ));
    };
    collect("b", 1);
    judge(scratch);
    collect("a", 2);
    collect("b", 2);
}

fn judge(scratch: &Scratch, words: &str) -> usize {
    scratch.ok(&format!(
        "judge export --experiment e --out judge.json --no-anchors {words}"
    ));
    let mut file = scratch.read_json("judge.json");
    let cases = file["cases"].as_array_mut().expect("cases");
    for case in &mut *cases {
        score_all(case, 3);
    }
    let count = cases.len();
    scratch.write("judge.json", &file.to_string());
    scratch.ok("judge apply judge.json --judge-kind human");
    count
}

/// The scenarios in which something was judged since.
fn judged_since(scratch: &Scratch, before: &[(String, String, bool)]) -> BTreeSet<String> {
    let now = runs(scratch);
    let changed = now.into_iter().filter(|it| it.2 && !before.contains(it));
    changed.map(|it| it.0).collect()
}

#[test]
fn an_export_begins_where_every_pair_can_be_judged() {
    let scratch = collected_at_different_times(|scratch| {
        judge(scratch, "");
    });
    let before = runs(&scratch);
    let mut waiting: BTreeMap<String, usize> = BTreeMap::new();
    for (scenario, _, judged) in &before {
        *waiting.entry(scenario.clone()).or_default() += usize::from(!judged);
    }
    let complete: BTreeSet<String> = waiting
        .iter()
        .filter(|(_, count)| **count == 2)
        .map(|(scenario, _)| scenario.clone())
        .collect();
    assert_eq!(complete.len(), 1, "{waiting:?}");
    // The oldest pending scenario is another one.
    assert_eq!(judge(&scratch, "--limit 1"), 2);
    assert_eq!(judged_since(&scratch, &before), complete);
}

#[test]
fn a_lease_begins_where_every_pair_can_be_judged() {
    let scratch = collected_at_different_times(|scratch| {
        judge(scratch, "");
    });
    let before = runs(&scratch);
    let store = store_of(&scratch);
    let mut queue: Queue = open(&store, sit("ann"), &at(0));
    let cases = queue.next(1, &at(1)).expect("a case");
    assert_eq!(queue.progress().held, 2, "both pairs of one scenario");
    let rest = queue.next(2, &at(1)).expect("cases");
    assert_eq!(rest.len(), 2);
    let verdicts: Vec<_> = rest.iter().map(|case| scored(case, 4)).collect();
    queue.submit(&verdicts, &at(2)).expect("accepted");
    assert!(rest.contains(&cases[0]));
    queue.finish(&at(3)).expect("finished");
    let since = judged_since(&scratch, &before);
    assert_eq!(since.len(), 1, "{since:?}");
    let of_both = runs(&scratch)
        .into_iter()
        .filter(|it| since.contains(&it.0));
    assert!(of_both.into_iter().all(|it| it.2));
}

#[test]
fn an_automatic_judge_begins_there_too() {
    let auto = "judge auto --experiment e --judge scripted:judge --script script.json --no-anchors \
                --json --limit 1";
    let scratch = collected_at_different_times(|scratch| {
        scratch.ok(auto);
    });
    assert_eq!(scratch.ok(auto).json()["judged"], 2, "both pairs");
    assert_eq!(scratch.ok(auto).json()["judged"], 1);
}

#[test]
fn a_tracking_server_hands_scenarios_out_in_the_same_order() {
    let (folder, scratch) = (Scratch::new(), Scratch::new());
    let served = Served::start(&folder);
    let settings = format!(
        "MLFLOW_TRACKING_URI={}\nMLFLOW_TRACKING_TOKEN={}\n",
        served.url, served.token
    );
    scratch.write(".env", &settings);
    let auto = "judge auto --experiment e --judge scripted:judge --script script.json --no-anchors \
                --json --limit 1";
    collect_at_different_times(&scratch, |scratch| {
        scratch.ok(auto);
        judge(scratch, "");
    });
    assert_eq!(
        scratch.ok(auto).json()["judged"],
        2,
        "both pairs, by a lease"
    );
    assert_eq!(judge(&scratch, "--limit 1"), 2, "both pairs, in a file");
    let pair = "scripted:a/v1";
    let reopened = scratch.ok(&format!(
        "judge reopen --experiment e --pairs {pair} --json"
    ));
    assert_eq!(
        reopened.json()["reopened"],
        1,
        "one of its two runs is judged\n{reopened}"
    );
    let runs = scratch.ok("runs export --experiment e").json_lines();
    let files = runs
        .iter()
        .flat_map(|it| it["verdicts"].as_array().expect("files"));
    let mut judges = files.map(|it| &it["judge"]);
    assert!(judges.any(|it| it["version"].as_str().is_some_and(|it| it.len() == 64)));
}

#[test]
fn reopened_pairs_are_pending_and_nothing_else() {
    let scratch = Scratch::collected(3, 1);
    judge(&scratch, "");
    let pairs = "scripted:a/v1,scripted:b/v2-mentor";
    let told = scratch.fails(2, "judge reopen --experiment e --pairs scripted:a/v9");
    assert!(told.stderr.contains("scripted:a/v1"), "{told}");
    let dry = format!("judge reopen --experiment e --pairs {pairs} --dry-run");
    let told = scratch.ok(&dry);
    assert!(
        told.stderr.contains("6 runs selected, 6 with verdicts"),
        "{told}"
    );
    assert_eq!(pending(&scratch, "expert"), 0);

    let told = scratch.ok(&format!(
        "judge reopen --experiment e --pairs {pairs} --json"
    ));
    assert_eq!(told.json()["reopened"], 6, "{told}");
    let reopened: BTreeSet<String> = runs(&scratch)
        .into_iter()
        .filter(|it| !it.2)
        .map(|it| it.1)
        .collect();
    assert_eq!(reopened.into_iter().collect::<Vec<_>>().join(","), pairs);
    // The next sitting gets both pairs of every scenario; what was said before is kept.
    assert_eq!(judge(&scratch, "--limit 1"), 2);
    assert_eq!(judge(&scratch, ""), 4);
    assert_eq!(pending(&scratch, "expert"), 0);
    for run in scratch.ok("runs export --experiment e").json_lines() {
        let is_reopened = run["tags"].get("set_aside").is_some();
        let files = run["verdicts"].as_array().map(Vec::len);
        assert_eq!(files, Some(1 + usize::from(is_reopened)), "{run}");
    }
    let auto = format!("judge reopen --experiment e --pairs {pairs} --tier auto --json");
    let none = scratch.ok(&auto).json();
    assert_eq!((&none["reopened"], &none["judged"]), (&0.into(), &0.into()));
    assert_eq!(pending(&scratch, "expert"), 0, "the other tier stays");
}

#[test]
fn a_judge_of_the_candidates_family_is_named() {
    let scratch = Scratch::new();
    let verdict = r#"{"reason":"r","relevance":3,"actionability":3,"tone":3}"#;
    let models = [
        ("qwen2.5-0.5b", &["Walk now."][..]),
        ("gemma", &["Eat."]),
        ("qwen2.5-7b", &[verdict]),
        ("other", &[verdict]),
    ];
    scratch.write("script.json", &script(&models));
    scratch.ok(
        "collect --models scripted:qwen2.5-0.5b,scripted:gemma --prompts v1 --n-tips 1 \
         --n-scenarios 2 --script script.json --experiment e",
    );
    let auto = |judge: &str| {
        scratch.ok(&format!(
            "judge auto --experiment e --judge scripted:{judge} --script script.json --no-anchors"
        ))
    };
    let told = auto("qwen2.5-7b").stderr;
    let told: Vec<&str> = told.split_whitespace().collect();
    let told = told.join(" ");
    assert!(
        told.contains("own family (scripted:qwen2.5-0.5b)"),
        "{told}"
    );
    let warnings = status(&scratch)["warnings"].clone();
    assert_eq!(warnings.as_array().map(Vec::len), Some(1), "{warnings}");
    let page = scratch.ok("judge status --experiment e").stdout;
    assert!(
        page.contains("Note: the judge scripted:qwen2.5-7b"),
        "{page}"
    );
    scratch.ok("judge reopen --experiment e --tier auto");
    let told = auto("other");
    assert!(!told.stderr.contains("family"), "{told}");
}

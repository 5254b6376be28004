//! `assize plan`: power, hours and cost before anything is collected.

use assize_test_support::promotion_task::{ahead, fill, scratch};
use assize_test_support::server::{Reply, Served};
use assize_test_support::{Scratch, score_all};
use serde_json::{Value, json};

const PLAN: &str = "plan --models a,b --prompts v1,v2-mentor --simulations 200 --json";

fn plan(scratch: &Scratch, more: &str) -> Value {
    scratch.ok(format!("{PLAN} {more}").as_str()).json()
}

fn post(served: &Served, request: &Value) -> Reply {
    served.send("POST /api/bench/plan", request.to_string().as_bytes())
}

fn number(value: &Value) -> f64 {
    value.as_f64().expect("a number")
}

#[test]
fn a_plan_needs_neither_models_nor_earlier_experiments() {
    let scratch = Scratch::new();
    let found = plan(&scratch, "");
    assert_eq!(found["grid"]["pairs"], 4);
    assert_eq!(found["grid"]["scenarios"], 8);
    assert_eq!(found["grid"]["candidates"], 5);
    assert_eq!(found["gate"]["margin"], 0.5);
    assert_eq!(found["gate"]["scenario_floor"], -2.0);
    assert_eq!(found["power"]["effect"], 1.0, "twice the margin");
    assert_eq!(found["spreads"]["basis"], "defaults");
    assert_eq!(found["judging"]["basis"], "defaults");
    assert_eq!(found["generation"]["hours"], Value::Null);
    assert_eq!(found["cost_usd"], Value::Null);
    let power = &found["power"];
    assert!(number(&power["whole_gate"]) > number(&power["false_promotions"]));
    assert!(number(&power["smallest_effect"]) > 1.0, "{power}");
    assert!(number(&found["cheapest"]["power"]) > 0.7, "{found:#}");
    assert!(!scratch.file(".assize").exists(), "nothing is written");
}

#[test]
fn the_plan_fits_a_terminal_and_names_the_next_command() {
    let scratch = Scratch::new();
    let shown = scratch.ok(PLAN.replace(" --json", "").as_str());
    assert!(
        shown.stdout.lines().all(|line| line.chars().count() <= 80),
        "{shown}"
    );
    for words in [
        "power of the whole gate",
        "smallest effect",
        "judging",
        "margin +0.50",
    ] {
        assert!(shown.stdout.contains(words), "{words}: {shown}");
    }
    assert!(
        shown.stderr.contains("assize collect --models a,b"),
        "{shown}"
    );
}

#[test]
fn the_same_plan_has_the_same_figures_and_more_data_more_power() {
    let scratch = Scratch::new();
    let first = plan(&scratch, "");
    assert_eq!(first, plan(&scratch, ""));
    let larger = plan(&scratch, "--n-scenarios 32");
    let power = |it: &Value| number(&it["power"]["whole_gate"]);
    assert!(power(&larger) > power(&first), "{larger:#}");
    let smallest = |it: &Value| number(&it["power"]["smallest_effect"]);
    assert!(smallest(&larger) < smallest(&first));
    let note = larger["notes"][0].as_str().expect("a note");
    assert!(note.contains("add 24"), "{note}");
}

#[test]
fn the_gate_s_settings_change_the_plan() {
    let scratch = Scratch::new();
    let loose = plan(&scratch, "--effect 1.2");
    scratch.write("assize.toml", "[gate]\nlevel = 0.001\nmargin = 2\n");
    let strict = plan(&scratch, "--effect 1.2");
    let power = |it: &Value| number(&it["power"]["whole_gate"]);
    assert!(power(&strict) < power(&loose) / 2.0, "{strict:#}");
    assert_eq!(
        (&strict["gate"]["level"], &strict["gate"]["margin"]),
        (&json!(0.001), &json!(2.0))
    );
    let note = strict["notes"][0].as_str().expect("a note");
    assert!(note.contains("not above the margin"), "{note}");
}

#[test]
fn earlier_experiments_replace_the_defaults() {
    let scratch = scratch(ahead);
    fill(&scratch);
    let line = "plan --task task --models scripted:m --script script.json --simulations 100 --json";
    let found = scratch.ok(line).json();
    assert_eq!(found["spreads"]["basis"], "earlier", "{found:#}");
    assert_eq!(found["spreads"]["experiments"], json!(["e"]));
    // The rubric's composite runs from 1 to 12, and tones differ by one between candidates.
    assert_eq!(found["composite_range"], json!([1.0, 12.0]));
    assert!((number(&found["gate"]["margin"]) - 11.0 / 30.0).abs() < 1e-9);
    assert!(
        (number(&found["spreads"]["candidate_sd"]) - 0.5_f64.sqrt()).abs() < 0.1,
        "{found:#}"
    );
    assert_eq!(found["generation"]["models"][0]["basis"], "earlier");
    assert_eq!(found["grid"]["confirmation"], 6);
    let outputs = 3 * 8 * 5 + 2 * 6 * 5;
    assert_eq!(found["grid"]["outputs"], outputs);
    assert_eq!(
        found["power"]["whole_gate"],
        found["power"]["with_confirmation"]
    );
}

#[test]
fn what_outputs_cost_before_is_what_they_will_cost() {
    let scratch = Scratch::new();
    let model = |cost: f64| {
        let response =
            json!({"prompt": "*", "scenario": "*", "texts": ["A tip."], "cost_usd": cost});
        json!({"parameter_count": 5, "responses": [response]})
    };
    let models = json!({"models": {"a": model(0.001), "b": model(0.003)}});
    scratch.write("script.json", &models.to_string());
    let models = "--models scripted:a,scripted:b --script script.json --prompts v1";
    scratch.ok(format!("collect {models} --n-tips 2 --experiment e").as_str());
    let found = scratch
        .ok(format!("plan {models} --simulations 50 --json").as_str())
        .json();
    let cost = number(&found["cost_usd"]);
    let expected = number(&found["grid"]["outputs"]) * 0.002;
    assert!((cost - expected).abs() < 1e-9, "{found:#}");
    assert!((number(&found["generation"]["models"][1]["cost_usd_per_1000"]) - 3.0).abs() < 1e-9);
    // Nothing is judged, so that nothing is known of the spreads.
    assert_eq!(found["spreads"]["basis"], "defaults");
    assert_eq!(found["generation"]["models"][0]["basis"], "earlier");
}

#[test]
fn judges_are_as_fast_as_they_were() {
    let scratch = Scratch::collected(5, 1);
    let words = "--judge-kind human --judged-by Ana";
    scratch.judge("e", "all.json", words, |case| score_all(case, 3));
    // A judge file comes in at one moment, which says nothing about the pace.
    let line = "plan --models a,b --prompts v1 --simulations 50 --json";
    let found = scratch.ok(line).json();
    assert_eq!(found["judging"]["basis"], "defaults", "{found:#}");
    assert_eq!(found["judging"]["minutes_per_case"], 0.5);

    let scratch = Scratch::collected(5, 1);
    let mut file = scratch.export("e", "judge.json");
    let apply = "judge apply judge.json --judge-kind human --judged-by Ana --partial";
    let cases = file["cases"].as_array().expect("cases").len();
    for first in [cases / 3, cases] {
        for case in &mut file["cases"].as_array_mut().expect("cases")[..first] {
            score_all(case, 3);
        }
        scratch.write("judge.json", &file.to_string());
        scratch.ok(apply);
        std::thread::sleep(std::time::Duration::from_millis(1_100));
    }
    let found = scratch.ok(line).json();
    assert_eq!(found["judging"]["basis"], "earlier", "{found:#}");
    let minutes = number(&found["judging"]["minutes_per_case"]);
    assert!(minutes > 0.0 && minutes < 0.1, "{minutes}");
}

#[test]
fn what_cannot_be_planned_is_refused() {
    let scratch = Scratch::new();
    let fails = |line: &str, words: &str| {
        let outcome = scratch.fails(2, line);
        assert!(outcome.stderr.contains(words), "{outcome}");
    };
    fails(
        "plan --models a --prompts v1",
        "at least two models or two prompts",
    );
    fails(
        "plan --models a,b --prompts v1 --effect 0",
        "use more than 0",
    );
    fails(
        "plan --models a,b --prompts v1 --effect 16",
        "at most 15 points",
    );
    fails(
        "plan --models a,b --prompts v1 --power 1",
        "from 0.05 to 0.99",
    );
    fails("plan --models a,b --prompts nothing", "nothing");
    let few = plan(&scratch, "--n-scenarios 3");
    assert_eq!(few["power"]["whole_gate"], 0.0);
    assert!(
        few["notes"][0]
            .as_str()
            .expect("a note")
            .contains("cannot carry a test")
    );
}

#[test]
fn a_grid_that_is_too_small_for_the_gate_says_so() {
    let scratch = Scratch::new();
    let found = scratch
        .ok("plan --models a,b --prompts v1 --n-tips 1 --simulations 50 --json")
        .json();
    assert_eq!(found["power"]["whole_gate"], 0.0, "{found:#}");
    let notes: Vec<&str> = found["notes"]
        .as_array()
        .expect("notes")
        .iter()
        .filter_map(Value::as_str)
        .collect();
    assert!(
        notes.iter().any(|it| it.contains("double_scored")),
        "{notes:?}"
    );
}

#[test]
fn the_server_s_plan_is_the_command_s() {
    let scratch = Scratch::new();
    let command = plan(&scratch, "--effect 1.5");
    let served = Served::start(&scratch);
    let request = json!({"models": ["a", "b"], "prompts": ["v1", "v2-mentor"], "effect": 1.5, "simulations": 200});
    let reply = post(&served, &request);
    assert_eq!(reply.status, 200);
    assert_eq!(reply.json(), command);
    let wrong = json!({"models": ["a", "b"], "effect": "much", "nonsense": 1});
    let reply = post(&served, &wrong);
    assert_eq!(reply.status, 400);
    let problems = reply.json();
    let fields = problems["error"]["fields"].as_array().expect("fields");
    let fields: Vec<&Value> = fields.iter().map(|it| &it["field"]).collect();
    assert_eq!(fields, ["nonsense", "effect"]);
    let one = post(&served, &json!({"models": ["a"], "prompts": ["v1"]}));
    assert_eq!(one.status, 400);
    assert!(
        one.json()["error"]["message"]
            .as_str()
            .expect("words")
            .contains("at least two")
    );
    let page = served.get("/run/new?other_models=a,b&prompt=v1&prompt=v2-mentor&plan=1");
    let html = String::from_utf8_lossy(&page.body).into_owned();
    assert!(html.contains("power of the whole gate"), "{html}");
    assert!(
        html.contains("Power of the whole gate by the true effect"),
        "the chart"
    );
    let blank = served.get("/run/new?other_models=a,b&prompt=v1");
    assert!(!String::from_utf8_lossy(&blank.body).contains("power of the whole gate"));
}

//! The table of options (`crates/domain/src/options/table.rs`) is the only list of options: what
//! the program offers is exactly what the table says. A new row passes without changes here.

use std::collections::BTreeSet;

use assize_domain::job::JobKind;
use assize_domain::options::{FormField, OPTIONS, Options, request_keys, shown_default};
use assize_test_support::server::Served;
use assize_test_support::{Scratch, script};
use serde_json::Value;

type Names = BTreeSet<String>;

fn options(is_in: impl Fn(&assize_domain::options::OptionSpec) -> bool) -> Names {
    let found = OPTIONS.iter().filter(|it| is_in(it));
    found.map(|it| it.key.to_owned()).collect()
}

fn with(mut names: Names, others: &[&str]) -> Names {
    names.extend(others.iter().map(|it| (*it).to_owned()));
    names
}

/// The flags of a command, by its help, as keys.
fn flags(help: &str) -> Names {
    let lines = help.lines().map(str::trim_start);
    let flags = lines
        .filter(|it| it.starts_with('-'))
        .filter_map(|it| it.split("--").nth(1))
        .map(|it| it.split([' ', '[', '=']).next().unwrap_or_default());
    flags.map(|it| it.replace('-', "_")).collect()
}

const GLOBAL: [&str; 7] = [
    "task",
    "tracking_uri",
    "config",
    "json",
    "quiet",
    "no_color",
    "help",
];

#[test]
fn every_option_is_a_flag_with_its_default() {
    let scratch = Scratch::new();
    let collect = scratch.ok("collect --help").stdout;
    let own = [
        "shard",
        "adaptive",
        "judge",
        "incumbent",
        "dry_run",
        "cache",
        "watch",
        "events",
    ];
    let expected = options(|it| JobKind::Collect.is_in(it.flags));
    let expected = with(with(expected, &own), &GLOBAL);
    assert_eq!(flags(&collect), expected, "{collect}");

    let judge = scratch.ok("judge auto --help").stdout;
    let own = ["experiment", "judge", "no_anchors", "limit", "events"];
    let expected = options(|it| JobKind::Judge.is_in(it.flags));
    let expected = with(with(expected, &own), &GLOBAL);
    assert_eq!(flags(&judge), expected, "{judge}");

    let steps = scratch.ok("optimise step --help").stdout;
    let expected = options(|it| JobKind::Optimise.is_in(it.flags));
    let expected = with(with(expected, &["experiment", "once", "events"]), &GLOBAL);
    assert_eq!(flags(&steps), expected, "{steps}");

    let words = |text: &str| text.split_whitespace().collect::<Vec<_>>().join(" ");
    for spec in OPTIONS {
        let help = if JobKind::Collect.is_in(spec.flags) {
            words(&collect)
        } else {
            words(&judge)
        };
        assert!(help.contains(spec.help), "{}: {help}", spec.key);
        let default = shown_default(spec);
        let shown = format!("{} [default: {default}]", spec.help);
        assert!(default.is_empty() || help.contains(&shown), "{shown}");
    }
}

#[test]
fn every_option_is_a_documented_setting() {
    let scratch = Scratch::new();
    let text = scratch.ok("config --defaults").stdout;
    let documented: toml::Table = text.parse().expect("TOML");
    let mut keys: Names = documented.keys().cloned().collect();
    for other in [
        "serve_open_loopback",
        "serve_allow",
        "serve_allow_commands",
        "serve_log",
        "engine",
        "airflow",
        "gate",
        "webhook",
        "command",
        "policy",
    ] {
        assert!(keys.remove(other), "{other}");
    }
    assert_eq!(keys, options(|_| true));
    // The whole documented file is a valid settings file.
    scratch.write("assize.toml", &text);
    scratch.ok("models list");
}

#[test]
fn every_option_is_a_field_of_requests_and_of_forms() {
    let scratch = Scratch::pending("scripted:a", "p1", 1);
    scratch.write(
        "assize.toml",
        "n_tips = 3\ntemperature = 0.25\nmax_cost = 7\n",
    );
    let served = Served::start_with(&scratch, "serve --port 0 --json --task task");
    let document = served.get("/api/openapi.json").json();
    for (path, kind) in [
        ("/api/bench/run", JobKind::Collect),
        ("/api/bench/judge", JobKind::Judge),
        ("/api/bench/optimise", JobKind::Optimise),
    ] {
        let schema = resolve(
            &document,
            &document["paths"][path]["post"]["requestBody"]["content"]["application/json"]["schema"],
        );
        let properties = schema["properties"].as_object().expect("properties");
        let fields: Names = properties.keys().cloned().collect();
        let expected = with(Names::new(), &request_keys(kind));
        assert_eq!(fields, expected, "{path}");
        for spec in OPTIONS.iter().filter(|it| kind.is_in(it.fields)) {
            let described = properties[spec.key].to_string();
            assert!(described.contains(spec.kind.json_type()), "{described}");
        }
    }
    for (path, kind) in [
        ("/run/new", JobKind::Collect),
        ("/judges/e/auto", JobKind::Judge),
    ] {
        let page = String::from_utf8(served.get(path).body).expect("text");
        for spec in OPTIONS {
            let is_input = matches!(spec.form(kind), FormField::Main(_) | FormField::More(_));
            // This task has no angles, so nothing can be made diverse.
            let is_input = is_input && spec.key != "diversity";
            let is_there = page.contains(&format!("name=\"{}\"", spec.key));
            let is_custom = matches!(spec.form(kind), FormField::Custom(_));
            assert!(is_custom || is_there == is_input, "{path}: {}", spec.key);
        }
    }
    // What the settings say is shown and not sent.
    let page = String::from_utf8(served.get("/run/new").body).expect("text");
    for input in [
        "name=\"n_tips\" type=\"number\" min=\"1\" max=\"1000\" value=\"\" placeholder=\"3\"",
        "name=\"temperature\" inputmode=\"decimal\" value=\"\" placeholder=\"0.25\"",
        "Blank uses the server",
    ] {
        assert!(page.contains(input), "{input}: {page}");
    }
}

fn resolve<'a>(document: &'a Value, schema: &'a Value) -> &'a Value {
    match schema["$ref"].as_str() {
        Some(path) => document
            .pointer(path.trim_start_matches('#'))
            .expect("a schema"),
        None => schema,
    }
}

#[test]
fn every_option_of_collect_is_recorded_with_the_run() {
    let scratch = Scratch::new();
    scratch.write("script.json", &script(&[("a", &["Walk."])]));
    scratch.ok(
        "collect --models scripted:a --prompts v1 --n-scenarios 1 --script script.json \
                --experiment e --base-url http://u:secret@localhost:1/v1 --assume-size openai:x=1 --model-options top_k=1 \
                --sweep temperature=0.2",
    );
    let listed = scratch.ok("runs list --experiment e --json").json();
    let id = listed["runs"][0]["run_id"].as_str().expect("an id");
    let run = scratch.ok(&["runs", "show", id, "--json"]).json();
    let params = run["params"].as_object().expect("params");
    let recorded: Names = params.keys().cloned().collect();
    let own = [
        "task",
        "model",
        "prompt",
        "scenario",
        "mlflow_url",
        "shard",
        "adaptive",
    ];
    let scenario = ["persona", "slot"];
    let expected = options(|it| JobKind::Collect.is_in(it.flags));
    let expected = with(with(expected, &own), &scenario);
    let extra: Vec<_> = recorded.difference(&expected).collect();
    let missing: Vec<_> = expected.difference(&recorded).collect();
    assert!(missing.is_empty(), "not recorded: {missing:?}");
    let only_of_scenario = |key: &&String| OPTIONS.iter().any(|it| it.key == key.as_str());
    assert!(
        !extra.iter().any(only_of_scenario),
        "recorded besides: {extra:?}"
    );
    assert_eq!(params["n_tips"], Options::default().n_tips.to_string());
    assert!(
        !params["base_url"].to_string().contains("secret"),
        "{params:?}"
    );
}

#[test]
fn a_switch_that_the_settings_turn_on_can_be_turned_off() {
    let scratch = Scratch::new();
    scratch.write("script.json", &script(&[("a", &["Walk."])]));
    scratch.write(
        "assize.toml",
        "diversity = true\nscript = \"script.json\"\n",
    );
    for (flag, expected) in [("", "true"), (" --diversity=false", "false")] {
        let experiment = format!("e-{expected}");
        scratch.ok(&format!(
            "collect --models scripted:a --prompts v1 --n-scenarios 1 --n-tips 1 --experiment {experiment}{flag}"
        ));
        let listed = scratch
            .ok(&format!("runs list --experiment {experiment} --json"))
            .json();
        let id = listed["runs"][0]["run_id"].as_str().expect("an id");
        let run = scratch.ok(&["runs", "show", id, "--json"]).json();
        assert_eq!(run["params"]["diversity"], expected);
    }
}

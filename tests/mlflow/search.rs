//! Searches among enough runs that indexes are used: every page agrees with a plain sort.

use std::cmp::Ordering;
use std::sync::Arc;

use assize_domain::run::{CellRecord, RunStatus};
use assize_store::embedded::{EmbeddedStore, random_run_id};
use assize_store::{Cells as _, RunQuery};
use serde_json::{Value, json};

use assize_test_support::Scratch;
use assize_test_support::random::Random;
use assize_test_support::server::Served;

const RUNS: usize = 6_000;

type Keep<'a> = &'a dyn Fn(&Known) -> bool;
type Order<'a> = &'a dyn Fn(&Known, &Known) -> Ordering;

/// What the plain sort knows of a run.
#[derive(Debug, Clone, Default)]
struct Known {
    run_id: String,
    start_time: i64,
    metric: Option<f64>,
    color: &'static str,
    rare: bool,
}

fn record(known: &Known, number: usize) -> CellRecord {
    let pair = |key: &str, value: &str| (Arc::from(key), Arc::from(value));
    let mut tags = vec![pair("color", known.color)];
    if known.rare {
        tags.push(pair("rare", "yes"));
    }
    CellRecord {
        cell_key: format!("cell-{number}"),
        name: format!("run {number}"),
        status: RunStatus::Finished,
        start_time_ms: known.start_time,
        end_time_ms: known.start_time + 1,
        params: vec![pair("number", &number.to_string())],
        tags,
        metrics: known
            .metric
            .map(|value| ("m".into(), value))
            .into_iter()
            .collect(),
        artifacts: Vec::new(),
    }
}

fn fill(scratch: &Scratch) -> Vec<Known> {
    let mut random = Random::new(7);
    let mut runs: Vec<Known> = (0..RUNS)
        .map(|_| Known {
            start_time: 1_000 + i64::try_from(random.below(2_000)).expect("sound"),
            metric: match random.below(10) {
                0 => None,
                1 => Some(f64::NAN),
                2 => Some(f64::NEG_INFINITY),
                _ => Some(random.below(40) as f64 / 10.0),
            },
            color: ["red", "green", "blue"][random.below(3)],
            rare: random.below(300) == 0,
            ..Known::default()
        })
        .collect();
    let path = scratch.path().join(".assize/assize.db");
    let store = EmbeddedStore::open(&path, || 0, random_run_id).expect("sound");
    for (part, known) in runs.chunks_mut(500).enumerate() {
        let cells: Vec<CellRecord> = known
            .iter()
            .enumerate()
            .map(|(at, it)| record(it, part * 500 + at))
            .collect();
        let recorded = store.cells_record("big", &cells).expect("sound");
        for (known, recorded) in known.iter_mut().zip(recorded) {
            known.run_id = recorded.run_id.expect("a run id");
        }
    }
    runs
}

/// All pages of a search, as ids.
fn pages(served: &Served, filter: &str, order_by: &[&str]) -> Vec<String> {
    let mut ids = Vec::new();
    let mut token = Value::Null;
    loop {
        let reply = served.post(
            "runs/search",
            &json!({"experiment_ids": ["1"], "filter": filter, "order_by": order_by,
                    "max_results": 700, "page_token": token}),
        );
        assert_eq!(reply.status, 200, "{reply:?}");
        let page = reply.json();
        for run in page["runs"].as_array().into_iter().flatten() {
            ids.push(run["info"]["run_id"].as_str().expect("sound").to_owned());
        }
        token = page["next_page_token"].clone();
        if token.is_null() {
            return ids;
        }
    }
}

fn rank(metric: Option<f64>) -> u8 {
    match metric {
        None => 2,
        Some(value) if value.is_nan() => 1,
        Some(_) => 0,
    }
}

fn by_metric(descending: bool) -> impl Fn(&Known, &Known) -> Ordering {
    move |a, b| {
        let values = a.metric.partial_cmp(&b.metric).unwrap_or(Ordering::Equal);
        let values = if descending { values.reverse() } else { values };
        rank(a.metric).cmp(&rank(b.metric)).then(values)
    }
}

fn expected(
    runs: &[Known],
    keep: impl Fn(&Known) -> bool,
    order: impl Fn(&Known, &Known) -> Ordering,
) -> Vec<String> {
    let mut kept: Vec<&Known> = runs.iter().filter(|it| keep(it)).collect();
    kept.sort_by(|a, b| {
        order(a, b)
            .then(b.start_time.cmp(&a.start_time))
            .then(a.run_id.cmp(&b.run_id))
    });
    kept.into_iter().map(|it| it.run_id.clone()).collect()
}

fn check(served: &Served, filter: &str, order_by: &[&str], expected: &[String]) {
    let found = pages(served, filter, order_by);
    let differs = found.iter().zip(expected).position(|(a, b)| a != b);
    let lengths = (found.len(), expected.len());
    assert!(
        differs.is_none() && lengths.0 == lengths.1,
        "{filter} by {order_by:?}: {lengths:?} runs, the first that differs is {differs:?}"
    );
}

#[test]
fn every_page_agrees_with_a_plain_sort() {
    let scratch = Scratch::new();
    let runs = fill(&scratch);
    let served = Served::start(&scratch);
    let number = |it: &Known| it.metric.filter(|it| !it.is_nan());
    let filters: [(&str, Keep<'_>); 6] = [
        ("", &|_| true),
        ("tags.color = 'blue'", &|it| it.color == "blue"),
        ("tags.rare = 'yes' AND tags.color != 'red'", &|it| {
            it.rare && it.color != "red"
        }),
        ("metrics.m < 2.5 AND metrics.m >= 0.5", &|it| {
            number(it).is_some_and(|it| (0.5..2.5).contains(&it))
        }),
        ("metrics.m > 3.8", &|it| {
            number(it).is_some_and(|it| it > 3.8)
        }),
        ("metrics.m != 1", &|it| {
            it.metric
                .is_some_and(|it| it.is_nan() || (it - 1.0).abs() > 1e-9)
        }),
    ];
    let orders: [(&[&str], Order<'_>); 6] = [
        (&[], &|_, _| Ordering::Equal),
        (&["metrics.m"], &by_metric(false)),
        (&["metrics.m DESC"], &by_metric(true)),
        (&["attributes.start_time ASC"], &|a, b| {
            a.start_time.cmp(&b.start_time)
        }),
        (&["tags.color DESC", "metrics.m"], &|a, b| {
            b.color.cmp(a.color).then(by_metric(false)(a, b))
        }),
        (&["metrics.m", "tags.color"], &|a, b| {
            by_metric(false)(a, b).then(a.color.cmp(b.color))
        }),
    ];
    // Twice: the first search of its kind makes the index that the second finds.
    for _ in 0..2 {
        for (filter, keep) in filters {
            for (order_by, order) in orders {
                check(&served, filter, order_by, &expected(&runs, keep, order));
            }
        }
        let one = [runs[17].run_id.clone()];
        check(&served, "params.number = '17'", &["metrics.m"], &one);
    }
}

#[test]
fn a_token_of_another_search_is_refused() {
    let scratch = Scratch::new();
    let served = Served::start(&scratch);
    for _ in 0..3 {
        served.run_new();
    }
    let search = |more: Value| {
        let mut ask = json!({"experiment_ids": ["0"], "max_results": 1});
        ask.as_object_mut()
            .expect("sound")
            .extend(more.as_object().expect("sound").clone());
        served.post("runs/search", &ask)
    };
    let first = search(json!({})).json();
    let token = &first["next_page_token"];
    let second = search(json!({"page_token": token})).json();
    assert_ne!(first["runs"], second["runs"]);
    let other = search(json!({"page_token": token, "order_by": ["end_time"]}));
    assert_eq!(other.status, 400, "{other:?}");
    for bad in ["x", "e30=", "eyJvZmZzZXQiOiAwfQ=="] {
        assert_eq!(search(json!({"page_token": bad})).status, 400, "{bad}");
    }
    let many: Vec<String> = (0..17).map(|it| format!("metrics.m{it}")).collect();
    assert_eq!(search(json!({"order_by": many})).status, 400);
    let long = vec!["tags.a = ''"; 300].join(" AND ");
    assert_eq!(search(json!({"filter": long})).status, 400);
}

/// All pages of the panel's list by a metric, as ids.
fn ranked(store: &EmbeddedStore, descending: bool) -> Vec<String> {
    let mut ids = Vec::new();
    let mut query = RunQuery {
        max_results: 700,
        ..RunQuery::default()
    };
    loop {
        let page = store
            .mlflow()
            .run_list_by("big", &query, ("m", descending))
            .expect("sound");
        ids.extend(page.runs.into_iter().map(|it| it.run_id));
        query.page_token = page.next_page_token;
        if query.page_token.is_none() {
            return ids;
        }
    }
}

#[test]
fn the_panel_s_list_by_a_metric_has_every_run_once_and_equal_ones_by_their_numbers() {
    let scratch = Scratch::new();
    let runs = fill(&scratch);
    let path = scratch.path().join(".assize/assize.db");
    let store = EmbeddedStore::open(&path, || 0, random_run_id).expect("sound");
    for descending in [true, false] {
        let mut wanted: Vec<(usize, &Known)> = runs.iter().enumerate().collect();
        wanted.sort_by(|(i, a), (j, b)| {
            let rank = |it: &Known| match it.metric {
                None => 2,
                Some(value) => i32::from(value.is_nan()),
            };
            let value = |it: &Known| it.metric.filter(|it| !it.is_nan()).unwrap_or(0.0);
            let by = value(a).total_cmp(&value(b)).then(i.cmp(j));
            let by = if descending { by.reverse() } else { by };
            rank(a).cmp(&rank(b)).then(by)
        });
        let wanted: Vec<&str> = wanted.iter().map(|(_, it)| it.run_id.as_str()).collect();
        assert!(ranked(&store, descending) == wanted, "{descending}");
    }
}

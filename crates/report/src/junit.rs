//! The leaderboard as `JUnit` XML, which every CI system reads.
//!
//! There is one `<testcase>` per pair, with a `<failure>` if the check fails and `<skipped/>` if
//! the pair is not checked. Only elements and attributes that Jenkins, `GitLab` and `GitHub`'s
//! reporters have in common are used. Characters that XML does not allow are replaced like hidden
//! ones; everything else is escaped by [`Markup`].
//!
//! A test's `time` is the pair's mean latency in seconds, because CI systems chart it.

use assize_domain::leaderboard::check::{Check, Outcome};
use assize_domain::leaderboard::{Leaderboard, Row};

use crate::axis;
use crate::markup::Markup;
use crate::{figure, sentences};

/// The whole document.
pub fn render(board: &Leaderboard, check: &Check) -> String {
    let outcomes = check.outcomes(board);
    let count = |wanted: fn(&Outcome) -> bool| outcomes.iter().filter(|it| wanted(it)).count();
    let tests = outcomes.len().to_string();
    let failures = count(|it| matches!(it, Outcome::Failed(_))).to_string();
    let skipped = count(|it| matches!(it, Outcome::Skipped)).to_string();
    let counts = |name| {
        [
            ("name", name),
            ("tests", tests.as_str().into()),
            ("failures", failures.as_str().into()),
            ("errors", "0".into()),
            ("skipped", skipped.as_str().into()),
        ]
    };
    let experiment = xml(&board.experiment);
    let mut page = Markup::default();
    page.raw("<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n");
    page.open("testsuites", &counts("assize compare".into()))
        .raw("\n");
    page.open("testsuite", &counts(experiment.as_str().into()))
        .raw("\n<properties>\n");
    for (name, value) in properties(board, check) {
        let value = xml(&value);
        let attributes = [("name", name.into()), ("value", value.as_str().into())];
        page.empty("property", &attributes).raw("\n");
    }
    page.raw("</properties>\n");
    for (row, outcome) in board.rows.iter().zip(&outcomes) {
        case(&mut page, &experiment, board, row, outcome);
    }
    page.raw("</testsuite>\n</testsuites>\n");
    page.into_string()
}

fn properties(board: &Leaderboard, check: &Check) -> Vec<(&'static str, String)> {
    let mut properties = vec![
        ("tier", board.tier.to_string()),
        ("split", board.split.clone()),
    ];
    let decision = sentences::nothing_to_rank(board).or_else(|| sentences::decision(board));
    properties.extend(decision.map(|it| ("decision", it)));
    properties.extend(
        board
            .incumbent
            .as_ref()
            .map(|it| ("incumbent", it.to_string())),
    );
    properties.extend(check.fail_under.map(|it| ("fail_under", it.to_string())));
    properties
}

fn case(page: &mut Markup, experiment: &str, board: &Leaderboard, row: &Row, outcome: &Outcome) {
    let name = xml(&row.pair().to_string());
    let latency_s = row.latency_ms.filter(|it| it.is_finite()).unwrap_or(0.0) / 1000.0;
    let time = format!("{latency_s:.3}");
    page.open(
        "testcase",
        &[
            ("classname", experiment.into()),
            ("name", name.as_str().into()),
            ("time", time.as_str().into()),
        ],
    )
    .raw("\n");
    match outcome {
        Outcome::Passed => {}
        Outcome::Skipped => {
            page.empty(
                "skipped",
                &[("message", "not the pair that is checked".into())],
            )
            .raw("\n");
        }
        Outcome::Failed(reasons) => {
            let reasons = xml(&reasons.join("; "));
            let attributes = [
                ("message", reasons.as_str().into()),
                ("type", "threshold".into()),
            ];
            page.leaf("failure", &attributes, &reasons).raw("\n");
        }
    }
    page.leaf("system-out", &[], &figures(board, row))
        .raw("\n</testcase>\n");
}

/// The row's figures as text.
fn figures(board: &Leaderboard, row: &Row) -> String {
    let mut composite = format!("composite {}", figure::plain(row.composite.mean));
    if let Some(ends) = axis::interval(row) {
        composite = format!("{composite} {}", figure::interval(ends));
    }
    let p = row.vs_incumbent.as_ref().and_then(|it| it.p_adjusted);
    let parts = [
        composite,
        format!(
            "vs incumbent {}",
            sentences::versus(board, row, figure::interval)
        ),
        format!("p adj {}", figure::p_value(p)),
        format!("scenarios {}", row.scenarios),
    ];
    parts.join(", ")
}

/// Replaces U+FFFE and U+FFFF, which XML does not allow although they are not control characters.
fn xml(text: &str) -> String {
    text.replace(['\u{FFFE}', '\u{FFFF}'], "\u{FFFD}")
}

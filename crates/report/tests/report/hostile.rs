//! Malicious names are neutralised in every format.

use assize_domain::leaderboard::check::Check;
use assize_report::terminal::{Style, by_scenario, examples, table};
use assize_report::{csv, html, junit, markdown, svg};

use crate::boards;
use crate::hostile_answers::hostile_answers;

/// Everything that the crate can write about a hostile board, except colour.
fn outputs() -> Vec<(&'static str, String)> {
    let board = boards::hostile();
    let style = Style {
        width: 200,
        color: false,
        pareto: false,
    };
    let cells: String = board
        .rows
        .iter()
        .map(|row| svg::forest_cell(&board, row))
        .collect();
    let answers = hostile_answers(&board);
    let by = answers.by_scenario.clone().unwrap();
    let shown = answers.examples.clone().unwrap();
    vec![
        ("terminal", table(&board, style)),
        ("markdown", markdown::render(&board)),
        ("csv", csv::render(&board)),
        (
            "terminal by scenario",
            by_scenario::render(&board, &by, style),
        ),
        ("csv by scenario", csv::by_scenario::render(&board, &by)),
        ("markdown by scenario", markdown::answers::by_scenario(&by)),
        ("terminal examples", examples::render(&shown, style)),
        ("markdown examples", markdown::answers::examples(&shown)),
        (
            "html with answers",
            html::render_with(&board, &answers, "now"),
        ),
        ("junit", junit::render(&board, &strict())),
        ("html", html::render(&board, boards::ATTACKS[0])),
        ("forest", svg::forest(&board).unwrap()),
        ("forest cells", cells),
        ("heat map", svg::heat_map(&board).unwrap()),
        ("variance", svg::variance(&board).unwrap()),
        ("scatter", svg::scatter(&board).unwrap()),
    ]
}

/// Fails every pair, so that every name is in a failure.
fn strict() -> Check {
    Check {
        fail_under: Some(99.0),
        ..Check::default()
    }
}

/// Whether a format is not made of elements.
fn is_plain(name: &str) -> bool {
    let mut formats = ["terminal", "csv", "markdown"].iter();
    formats.any(|format| name.starts_with(format))
}

#[test]
fn control_and_bidirectional_characters_are_gone() {
    for (name, text) in outputs() {
        let hidden = |c: &char| {
            (c.is_control() && *c != '\n' && !(name.starts_with("csv") && *c == '\r'))
                || matches!(c, '\u{200E}' | '\u{200F}' | '\u{202A}'..='\u{202E}' | '\u{2066}'..='\u{2069}')
        };
        assert_eq!(text.chars().find(hidden), None, "{name}");
        assert!(
            text.contains('\u{FFFD}'),
            "{name} shows where something was taken out"
        );
    }
}

#[test]
fn a_line_break_in_a_name_breaks_no_line() {
    let board = boards::hostile();
    let rows = board.rows.len();
    assert_eq!(csv::render(&board).lines().count(), rows + 1);
    let table = markdown::render(&board);
    assert_eq!(
        table.lines().filter(|line| line.starts_with("| ")).count(),
        rows + 2
    );
}

#[test]
fn markup_stays_text() {
    for (name, text) in outputs() {
        if name.starts_with("terminal") || name.starts_with("csv") {
            continue;
        }
        for tag in ["<script", "<b>", "<svg onload", "]]>"] {
            assert!(!text.contains(tag), "{name} holds {tag}");
        }
    }
}

#[test]
fn attributes_cannot_be_left() {
    for (name, text) in outputs() {
        if is_plain(name) {
            continue;
        }
        // Between tags and inside attribute values a quote is always escaped, so quotes come in
        // pairs inside every tag.
        let style_end = text.find("</style>").unwrap_or(0);
        for tag in text[style_end..].split('<').skip(1) {
            let (inside, outside) = tag.split_once('>').unwrap();
            assert_eq!(inside.matches('"').count() % 2, 0, "{name}: {inside}");
            assert!(!outside.contains(['"', '>']), "{name}: {outside}");
        }
    }
}

#[test]
fn every_element_is_closed() {
    for (name, text) in outputs() {
        if is_plain(name) {
            continue;
        }
        let mut open: Vec<&str> = Vec::new();
        let body = text.find("<body>").unwrap_or(0);
        for tag in text[body..].split('<').skip(1) {
            let inside = tag.split_once('>').unwrap().0;
            let element = inside.split([' ', '/']).find(|it| !it.is_empty()).unwrap();
            if inside.starts_with('/') {
                let opened = open.pop();
                assert!(
                    opened == Some(element) || element == "html",
                    "{name}: {opened:?} {element}"
                );
            } else if !inside.ends_with(['/', '?']) {
                open.push(element);
            }
        }
        assert!(open.is_empty(), "{name}: {open:?}");
    }
}

#[test]
fn markdown_cells_stay_in_their_columns() {
    let text = markdown::render(&boards::hostile());
    let cells = |line: &str| {
        line.replace("\\\\", "")
            .replace("\\|", "")
            .matches('|')
            .count()
    };
    let counts: Vec<usize> = text
        .lines()
        .filter(|line| line.starts_with("| "))
        .map(cells)
        .collect();
    assert!(counts.iter().all(|count| *count == counts[0]), "{counts:?}");
    for line in text.lines() {
        let plain = line
            .replace("\\`", "")
            .replace("\\[", "")
            .replace("\\]", "");
        assert!(!plain.contains('`') && !plain.contains("]("), "{line}");
    }
}

#[test]
fn spreadsheets_get_no_formula() {
    for (name, text) in outputs().into_iter().filter(|it| it.0.starts_with("csv")) {
        let mut reader = ::csv::ReaderBuilder::new()
            .has_headers(false)
            .from_reader(text.as_bytes());
        let mut defused = 0;
        for record in reader.records().map(Result::unwrap) {
            for field in &record {
                let is_number = field.parse::<f64>().is_ok();
                assert!(
                    is_number || !field.starts_with(['=', '+', '-', '@']),
                    "{name}: {field}"
                );
                defused += usize::from(field.starts_with("'="));
            }
        }
        assert!(defused > 0, "{name}");
    }
}

#[test]
fn a_hostile_experiment_cannot_leave_its_quotes_in_the_next_command() {
    let mut board = boards::winner();
    board.experiment = "x'; rm -rf ~; echo '".to_owned();
    let style = Style {
        width: 200,
        color: false,
        pareto: false,
    };
    let text = table(&board, style);
    assert!(
        text.contains(r"assize promote --experiment 'x'\''; rm -rf ~; echo '\'''"),
        "{text}"
    );
}

//! Snapshots of the whole screen as plain text, at the two sizes that people have.

use assize_domain::case::Case;
use assize_domain::rubric::Rubric;
use crossterm::event::{KeyCode, KeyEvent, KeyModifiers};
use ratatui::Terminal;
use ratatui::backend::TestBackend;
use serde_json::json;

use super::*;
use crate::Progress;

const RUBRIC: &str = include_str!("../../../../tasks/tip/rubric.md");

fn desk() -> App {
    let rubric = Rubric::parse("rubric.md", RUBRIC).expect("sound");
    let mut app = App::new("tip-bench", rubric);
    let scores = json!({"relevance": null, "actionability": null, "tone": null, "format_ok": true, "overlong": false});
    let case = |id: &str, candidate: &str| Case {
        case: id.to_owned(),
        context: json!({
            "persona": "Amira, 34, hospital nurse on rotating shifts, mother of one",
            "time": "05:50", "weekday": "Tuesday",
            "notes": "The bus goes at 06:10. Her phone stays in the locker except at 09:30 (15 minutes).",
            "tasks": ["call the school office (closes 14:00)", "buy milk", "健康診断を予約する"],
        }),
        candidate: candidate.to_owned(),
        scores: scores.as_object().cloned().unwrap_or_default(),
        rationale: None,
    };
    app.take(vec![
        case("a", "Call the school office in your 09:30 break: it closes before your shift ends."),
        case("b", "気をつけて！ \x1b[2J\x1b]0;owned\x07Take the 06:10 bus\u{202e}sdrawkcab.\r\n\n  • one\n  • two\n\tthree 👩‍🔬"),
    ]);
    app.progress = Progress { done: 12, left: 84 };
    app.seconds_per_case = Some(14.0);
    app
}

fn press(app: &mut App, keys: &str) {
    for letter in keys.chars() {
        app.key(KeyEvent::new(KeyCode::Char(letter), KeyModifiers::NONE));
    }
}

fn screen(app: &App, width: u16, height: u16) -> String {
    let mut terminal = Terminal::new(TestBackend::new(width, height)).expect("a test screen");
    let theme = Theme { color: false };
    terminal
        .draw(|frame| draw(frame, app, theme))
        .expect("drawn");
    let buffer = terminal.backend().buffer();
    let rows = (0..height).map(|y| {
        let mut row = String::new();
        let mut x = 0;
        while x < width {
            let symbol = buffer[(x, y)].symbol();
            row.push_str(symbol);
            // A wide character hides the cell after it.
            x += u16::try_from(lines::width(symbol)).unwrap_or(1).max(1);
        }
        row.trim_end().to_owned()
    });
    rows.collect::<Vec<_>>().join("\n")
}

#[test]
fn a_case_being_scored() {
    let mut app = desk();
    press(&mut app, "4");
    insta::assert_snapshot!("scoring_80x24", screen(&app, 80, 24));
    insta::assert_snapshot!("scoring_120x40", screen(&app, 120, 40));
}

#[test]
fn hostile_and_wide_text_and_a_reason_being_written() {
    let mut app = desk();
    press(&mut app, "sfrToo long 長い");
    let shown = screen(&app, 80, 24);
    assert!(!shown.contains(['\x1b', '\x07', '\u{202e}']), "{shown}");
    insta::assert_snapshot!("hostile_80x24", shown);
    insta::assert_snapshot!("hostile_120x40", screen(&app, 120, 40));
}

#[test]
fn help_and_the_whole_rubric() {
    let mut app = desk();
    press(&mut app, "?");
    insta::assert_snapshot!("help_80x24", screen(&app, 80, 24));
    press(&mut app, "xvj");
    insta::assert_snapshot!("rubric_120x40", screen(&app, 120, 40));
}

#[test]
fn a_context_that_does_not_fit_can_be_read_whole() {
    let mut app = desk();
    let tasks: Vec<String> = (1..=12)
        .map(|n| format!("task {n}, which is due on Friday and takes an hour"))
        .collect();
    app.sheets[0].case.context["tasks"] = json!(tasks);
    app.sheets[0].case.context["weekday"] = json!("Tuesday");
    for (width, height) in [(60, 18), (80, 24)] {
        app.mode = Mode::Score;
        let shown = screen(&app, width, height);
        assert!(shown.contains("… c shows the whole context"), "{shown}");
        assert!(!shown.contains("task 12"), "{shown}");
        assert!(shown.contains("Call the school office"), "{shown}");
        press(&mut app, "c");
        let mut read = screen(&app, width, height);
        for _ in 0..2 {
            press(&mut app, " ");
            read.push_str(&screen(&app, width, height));
        }
        let read = read.split_whitespace().collect::<Vec<_>>().join(" ");
        for n in 1..=12 {
            assert!(read.contains(&format!("task {n},")), "{read}");
        }
        assert!(read.contains("shift ends."), "{read}");
    }
    app.mode = Mode::Score;
    insta::assert_snapshot!("long_context_80x24", screen(&app, 80, 24));
    press(&mut app, "c");
    insta::assert_snapshot!("whole_case_80x24", screen(&app, 80, 24));
    press(&mut app, "x");
    assert_eq!(app.mode, Mode::Score, "any key goes back");
}

#[test]
fn the_end_and_a_window_that_is_too_small() {
    let mut app = desk();
    insta::assert_snapshot!("too_small_40x10", screen(&app, 40, 10));
    app.position = 2;
    app.take(Vec::new());
    app.progress = Progress { done: 96, left: 0 };
    insta::assert_snapshot!("done_80x24", screen(&app, 80, 24));
}

#[test]
fn every_size_can_be_drawn() {
    let mut app = desk();
    for keys in ["", "s", "r", "xxxxxxxx", "\u{1b}"] {
        press(&mut app, keys);
        for (width, height) in [
            (1, 1),
            (10, 3),
            (60, 18),
            (61, 19),
            (80, 24),
            (200, 20),
            (300, 90),
        ] {
            screen(&app, width, height);
        }
    }
}

#[test]
fn without_colour_no_cell_has_one() {
    let app = desk();
    let mut terminal = Terminal::new(TestBackend::new(80, 24)).expect("a test screen");
    let theme = Theme { color: false };
    terminal
        .draw(|frame| draw(frame, &app, theme))
        .expect("drawn");
    let cells = &terminal.backend().buffer().content;
    assert!(
        cells
            .iter()
            .all(|cell| cell.fg == Color::Reset && cell.bg == Color::Reset)
    );
}

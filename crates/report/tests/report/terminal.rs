use assize_report::terminal::{Style, table};
use unicode_width::UnicodeWidthStr;

use crate::boards;

fn style(width: usize) -> Style {
    Style {
        width,
        color: false,
        pareto: false,
    }
}

#[test]
fn boards_at_80_and_120_columns() {
    for (name, board) in boards::all() {
        for width in [80, 120] {
            insta::assert_snapshot!(
                format!("terminal_{name}_{width}"),
                table(&board, style(width))
            );
        }
    }
}

#[test]
fn a_narrow_and_a_very_wide_terminal() {
    insta::assert_snapshot!("terminal_winner_50", table(&boards::winner(), style(50)));
    insta::assert_snapshot!("terminal_winner_200", table(&boards::winner(), style(200)));
}

#[test]
fn the_frontier_in_words() {
    for (name, board) in [
        ("winner", boards::winner()),
        ("uneven", boards::uneven()),
        ("hostile", boards::hostile()),
    ] {
        let style = Style {
            pareto: true,
            ..style(80)
        };
        insta::assert_snapshot!(format!("terminal_{name}_pareto"), table(&board, style));
    }
}

#[test]
fn no_line_is_longer_than_the_terminal() {
    for (name, board) in boards::all() {
        for width in 40..220 {
            for (color, pareto) in [(false, false), (true, true)] {
                let text = table(
                    &board,
                    Style {
                        color,
                        pareto,
                        ..style(width)
                    },
                );
                for line in text.lines() {
                    let line = without_colour(line);
                    // A command is not cut: it could not be run.
                    let is_command = line.contains("Next: assize") || line.contains("   --");
                    assert!(
                        is_command || line.width() <= width,
                        "{name} at {width}: {} columns: {line}",
                        line.width()
                    );
                    assert_eq!(line.trim_end(), line, "{name} at {width}");
                }
            }
        }
    }
}

#[test]
fn colour_adds_nothing_but_colour() {
    for (name, board) in boards::all() {
        let plain = table(&board, style(100));
        let coloured = table(
            &board,
            Style {
                color: true,
                ..style(100)
            },
        );
        assert_ne!(plain, coloured, "{name}");
        assert_eq!(plain, without_colour(&coloured), "{name}");
    }
}

#[test]
fn the_next_step_depends_on_what_is_there() {
    let next = |board| {
        let text = table(&board, style(200));
        text.split("Next: ").nth(1).unwrap().trim().to_owned()
    };
    assert_eq!(
        next(boards::winner()),
        "assize promote --experiment tip-bench"
    );
    assert_eq!(
        next(boards::no_winner()),
        "assize judge export --experiment tip-bench --out judge.json"
    );
    assert_eq!(
        next(boards::nothing_judged()),
        "assize judge export --experiment tip-bench --out judge.json"
    );
    assert!(next(boards::nothing_collected()).starts_with("run the same assize collect"));
    assert!(next(boards::one_pair()).starts_with("collect another"));
    let mut failed = boards::no_winner();
    failed.coverage.pending = 0;
    assert!(next(failed.clone()).starts_with("run the same assize collect again"));
    failed.coverage.failed = 0;
    assert!(next(failed).starts_with("add scenarios"));
    let mut spaced = boards::winner();
    spaced.experiment = "my bench".to_owned();
    assert_eq!(next(spaced), "assize promote --experiment 'my bench'");
}

#[test]
fn automatic_scores_say_so_and_never_say_ship() {
    let mut board = boards::winner();
    board.tier = assize_domain::leaderboard::BoardTier::Auto;
    let text = table(&board, style(80));
    assert!(text.starts_with(" These scores are automatic"), "{text}");
    assert!(
        text.contains("leads by automatic scores: it beats the incumbent"),
        "{text}"
    );
    assert!(!text.contains("Ship "), "{text}");
    assert!(text.contains("cells judged (auto)"), "{text}");
}

#[test]
fn what_was_chosen_on_its_own_scores_is_only_nominated() {
    let mut board = boards::winner();
    board.adaptive = true;
    let text = table(&board, style(200));
    assert!(
        text.contains("qwen2.5:1.5b × v3-few-shot is nominated: it beats the incumbent"),
        "{text}"
    );
    assert!(!text.contains("Ship "), "{text}");
}

/// The text without the escape sequences that we write ourselves.
fn without_colour(text: &str) -> String {
    let mut parts = text.split("\x1b[");
    let first = parts.next().unwrap().to_owned();
    parts.fold(first, |text, part| text + part.split_once('m').unwrap().1)
}

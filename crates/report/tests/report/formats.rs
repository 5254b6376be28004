use assize_domain::leaderboard::check::Check;
use assize_report::{csv, html, junit, markdown, svg};

use crate::boards;

#[test]
fn markdown_of_some_boards() {
    for (name, board) in boards::all() {
        insta::assert_snapshot!(format!("markdown_{name}"), markdown::render(&board));
    }
}

#[test]
fn csv_of_some_boards() {
    insta::assert_snapshot!("csv_no_winner", csv::render(&boards::no_winner()));
    insta::assert_snapshot!("csv_one_scenario", csv::render(&boards::one_scenario()));
    insta::assert_snapshot!("csv_nothing_judged", csv::render(&boards::nothing_judged()));
}

#[test]
fn csv_reads_back_with_every_figure_exact() {
    for (name, board) in boards::all() {
        let text = csv::render(&board);
        let mut reader = ::csv::Reader::from_reader(text.as_bytes());
        let header = reader.headers().unwrap().clone();
        let column = |name: &str| header.iter().position(|it| it == name).unwrap();
        let records: Vec<::csv::StringRecord> = reader.records().map(Result::unwrap).collect();
        assert_eq!(records.len(), board.rows.len(), "{name}");
        for (record, row) in records.iter().zip(&board.rows) {
            assert_eq!(record[column("rank")], row.rank.to_string());
            let mean = record[column("composite")].parse().ok();
            assert_eq!(
                mean,
                Some(row.composite.mean).filter(|it: &f64| it.is_finite()),
                "{name}"
            );
            assert_eq!(record[column("p_adjusted")].is_empty(), {
                let p = row.vs_incumbent.as_ref().and_then(|it| it.p_adjusted);
                p.is_none_or(f64::is_nan)
            });
        }
    }
}

#[test]
fn junit_of_a_board_with_a_threshold_and_with_a_candidate() {
    let mut board = boards::no_winner();
    if let Some(versus) = &mut board.rows[2].vs_incumbent {
        (versus.diff, versus.ci95) = (-1.5, Some([-2.5, -0.5]));
    }
    let threshold = Check {
        fail_under: Some(11.0),
        ..Check::default()
    };
    insta::assert_snapshot!("junit_threshold", junit::render(&board, &threshold));
    let named = Check {
        candidates: vec![board.rows[1].pair()],
        ..Check::default()
    };
    insta::assert_snapshot!("junit_candidate", junit::render(&board, &named));
    let empty = junit::render(&boards::nothing_judged(), &threshold);
    assert!(empty.contains("tests=\"0\" failures=\"0\""), "{empty}");
}

#[test]
fn no_latency_no_scatter() {
    let board = boards::uneven();
    assert_eq!(svg::scatter(&board), None);
    assert!(!html::render(&board, "now").contains("Quality and latency"));
}

#[test]
fn charts_of_a_board() {
    let board = boards::no_winner();
    insta::assert_snapshot!("svg_forest", svg::forest(&board).unwrap());
    insta::assert_snapshot!("svg_forest_cell", svg::forest_cell(&board, &board.rows[0]));
    insta::assert_snapshot!("svg_heat_map", svg::heat_map(&board).unwrap());
    insta::assert_snapshot!("svg_variance", svg::variance(&board).unwrap());
    insta::assert_snapshot!("svg_scatter", svg::scatter(&board).unwrap());
}

#[test]
fn a_board_without_rows_has_no_charts_but_a_page() {
    let board = boards::nothing_judged();
    for chart in [
        svg::forest(&board),
        svg::heat_map(&board),
        svg::variance(&board),
        svg::scatter(&board),
    ] {
        assert_eq!(chart, None);
    }
    insta::assert_snapshot!(
        "html_nothing_judged",
        body(&html::render(&board, "2026-04-27 10:00 UTC"))
    );
}

#[test]
fn the_page_of_a_board() {
    let page = html::render(&boards::no_winner(), "2026-04-27 10:00 UTC");
    insta::assert_snapshot!("html_no_winner", body(&page));
}

#[test]
fn pages_need_nothing_from_outside() {
    for (name, board) in boards::all() {
        if name == "hostile" {
            continue;
        }
        let page = html::render(&board, "now").replace("http://www.w3.org/2000/svg", "");
        for foreign in [
            "http:", "https:", "//", "url(", "@import", "<script", "<link", "<img", "src=",
        ] {
            assert!(!page.contains(foreign), "{name} holds {foreign}");
        }
    }
}

#[test]
fn figures_that_are_no_numbers_never_show() {
    let board = boards::not_numbers();
    let page = html::render(&board, "now");
    let checked = junit::render(&board, &Check::default());
    for text in [page, checked, csv::render(&board), markdown::render(&board)] {
        assert!(
            !text.contains("NaN") && !text.contains("inf,") && !text.contains("Infinity"),
            "{text}"
        );
    }
}

/// The page without its style sheet.
fn body(page: &str) -> &str {
    page.split_once("</head>").unwrap().1
}

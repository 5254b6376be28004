//! The board tab: a table with a forest plot, and charts.

use askama::Template;
use assize_domain::leaderboard::{Leaderboard, Row};
use assize_domain::scenario::Split;
use assize_report::columns::{self, Column};
use assize_report::{axis, figure, sentences, svg};
use axum::extract::State;

use super::sealed::instead_of_board;
use super::{Top, board_of, runs_of};
use crate::App;
use crate::panel::fields::{Fields, Path, Query};
use crate::panel::page::{Frame, PageResult, Visit, show};

#[derive(Template)]
#[template(path = "board.html")]
struct BoardPage {
    frame: Frame,
    top: Top,
    split: &'static str,
    tier: &'static str,
    is_computed: bool,
    splits: [&'static str; 3],
    head: String,
    is_measured: bool,
    main: Table,
    details: Table,
    axis: String,
    variance: Option<String>,
    sources: Option<String>,
    losses: Option<(String, String)>,
    combination: Option<String>,
    scatter: Option<String>,
    /// What the scatter plot is against, and what a pair is that uses less of it.
    against: (&'static str, &'static str),
    significant: String,
    rubric: Option<String>,
    /// How often the confirmation split was used.
    used: Option<String>,
}

/// Non-empty columns, and rows.
#[derive(Default)]
struct Table {
    heads: Vec<String>,
    rows: Vec<BoardRow>,
}

struct BoardRow {
    rank: u32,
    model: String,
    prompt: String,
    link: String,
    is_winner: bool,
    mean: String,
    half: String,
    plot: String,
    cells: Vec<String>,
}

pub(crate) async fn page(
    State(app): State<App>,
    Path(experiment): Path,
    Query(fields): Query,
    visit: Visit,
) -> PageResult {
    match instead_of_board(&app, &experiment, &fields, &visit, "board").await? {
        Some(sealed) => Ok(sealed),
        None => render(&app, &experiment, &fields, &visit).await,
    }
}

/// The board, whether it is sealed or not.
pub(crate) async fn render(
    app: &App,
    experiment: &str,
    fields: &Fields,
    visit: &Visit,
) -> PageResult {
    let (cached, top, split) = board_of(app, experiment, fields, "board").await?;
    let board = &cached.board;
    show(&BoardPage {
        frame: Frame::new("experiments", visit),
        used: sentences::confirmation_use(board),
        split: split.as_str(),
        tier: board.tier.as_str(),
        is_computed: board.computed,
        splits: [Split::Selection, Split::Feedback, Split::Confirmation].map(Split::as_str),
        head: format!("composite{}", sentences::of_maximum(board)),
        is_measured: axis::is_measured(board),
        main: table(board, &columns::deciding(board)),
        details: table(board, &columns::explaining(board)),
        axis: svg::forest_axis(board),
        variance: svg::variance(board),
        sources: sentences::sources_line(board),
        losses: sentences::losses_line(board).zip(svg::losses(board)),
        combination: sentences::combination(board),
        scatter: svg::scatter(board),
        against: board.pareto.as_ref().map_or(("latency", "faster"), |it| {
            (it.against.name(), sentences::uses_less(it.against))
        }),
        significant: sentences::significant_below(board),
        rubric: board.rubric.as_ref().map(|it| it.id.clone()),
        top,
    })
}

fn table(board: &Leaderboard, columns: &[Column<'_>]) -> Table {
    let line = |row: &Row| BoardRow {
        rank: row.rank,
        model: row.model.clone(),
        prompt: row.prompt.clone(),
        link: runs_of(&board.experiment, &board.split, &row.model, &row.prompt),
        is_winner: sentences::is_winner(board, row),
        mean: figure::plain(row.composite.mean),
        half: axis::interval(row).map(figure::half).unwrap_or_default(),
        plot: svg::forest_cell(board, row),
        cells: columns.iter().map(|column| column.cell(row)).collect(),
    };
    Table {
        rows: board.rows.iter().map(line).collect(),
        heads: columns.iter().map(|column| column.head.clone()).collect(),
    }
}

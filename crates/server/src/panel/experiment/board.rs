//! The board: a table whose rows are the forest plot, and the charts.

use askama::Template;
use assize_domain::leaderboard::{Leaderboard, Row, Scores};
use assize_domain::scenario::Split;
use assize_report::{axis, figure, svg, words};
use axum::extract::{Path, State};

use super::{Top, asked, kept, pending, runs_of};
use crate::App;
use crate::boards::Boards;
use crate::panel::fields::Query;
use crate::panel::page::{Frame, Paged, Visit, show};

#[derive(Template)]
#[template(path = "board.html")]
struct BoardPage {
    frame: Frame,
    top: Top,
    split: &'static str,
    tier: &'static str,
    splits: [&'static str; 3],
    head: String,
    is_measured: bool,
    main: Table,
    details: Table,
    axis: String,
    variance: Option<String>,
    sources: Option<String>,
    scatter: Option<String>,
    rubric: Option<String>,
}

/// Columns that hold something, and rows.
#[derive(Default)]
struct Table {
    heads: Vec<String>,
    rows: Vec<Line>,
}

struct Line {
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
    Path(experiment): Path<String>,
    Query(fields): Query,
    visit: Visit,
) -> Paged {
    let options = asked(&experiment, &fields)?;
    let pending = pending(&app, &experiment).await?;
    let kept = kept(&options);
    let cached = Boards::get(&app, options.clone()).await?;
    let board = &cached.board;
    show(&BoardPage {
        frame: Frame::new("experiments", &visit),
        split: options.split.as_str(),
        tier: board.tier.as_str(),
        splits: [Split::Selection, Split::Feedback, Split::Confirmation].map(Split::as_str),
        head: format!("composite{}", words::of_maximum(board)),
        is_measured: axis::is_measured(board),
        main: table(board, main_columns(board)),
        details: table(board, detail_columns(board)),
        axis: svg::forest_axis(board),
        variance: svg::variance(board),
        sources: words::sources_line(board),
        scatter: svg::scatter(board),
        rubric: board.rubric.as_ref().map(|it| it.id.clone()),
        top: Top::of(board, "board", pending, kept),
    })
}

/// A column of figures: its head and what stands in a row.
struct Column<'a> {
    head: String,
    cell: Box<dyn Fn(&Row) -> String + 'a>,
}

impl<'a> Column<'a> {
    fn new(head: &str, cell: impl Fn(&Row) -> String + 'a) -> Self {
        Self {
            head: head.to_owned(),
            cell: Box::new(cell),
        }
    }
}

/// What decides.
fn main_columns(board: &Leaderboard) -> Vec<Column<'_>> {
    let adjusted = |row: &Row| row.vs_incumbent.as_ref().and_then(|it| it.p_adjusted);
    vec![
        Column::new("vs incumbent", |row| {
            words::versus(board, row, figure::half)
        }),
        Column::new("p adj", move |row| figure::p_value(adjusted(row))),
        Column::new("p best", |row| {
            figure::optional(row.p_best, figure::percent)
        }),
    ]
}

/// What explains.
fn detail_columns(board: &Leaderboard) -> Vec<Column<'_>> {
    let mut columns = scores(board, |row| &row.criteria, figure::plain);
    columns.extend(scores(board, |row| &row.flags, figure::percent));
    columns.extend([
        Column::new("latency", |row| {
            figure::optional(row.latency_ms, figure::latency)
        }),
        Column::new("tok/s", |row| {
            figure::optional(row.tokens_per_s, figure::speed)
        }),
        Column::new("scenarios", |row| row.scenarios.to_string()),
        Column::new("candidates", |row| row.candidates.to_string()),
    ]);
    columns
}

fn scores(
    board: &Leaderboard,
    of: fn(&Row) -> &Scores,
    write: fn(f64) -> String,
) -> Vec<Column<'_>> {
    let names = words::score_names(board, of).into_iter();
    let column = |name: &'_ str| {
        let name = name.to_owned();
        Column::new(&name.clone(), move |row| {
            figure::optional(of(row).get(&name).copied(), write)
        })
    };
    names.map(column).collect()
}

fn table(board: &Leaderboard, mut columns: Vec<Column<'_>>) -> Table {
    columns.retain(|column| {
        let mut rows = board.rows.iter();
        rows.any(|row| (column.cell)(row) != figure::NONE)
    });
    let line = |row: &Row| Line {
        rank: row.rank,
        model: row.model.clone(),
        prompt: row.prompt.clone(),
        link: runs_of(&board.experiment, &row.model, &row.prompt),
        is_winner: words::is_winner(board, row),
        mean: figure::plain(row.composite.mean),
        half: axis::interval(row).map(figure::half).unwrap_or_default(),
        plot: svg::forest_cell(board, row),
        cells: columns.iter().map(|column| (column.cell)(row)).collect(),
    };
    Table {
        rows: board.rows.iter().map(line).collect(),
        heads: columns.iter().map(|column| column.head.clone()).collect(),
    }
}

//! The board tab: a table with a forest plot, and charts.

use askama::Template;
use assize_domain::leaderboard::answers::{ByScenario, ScenarioRow};
use assize_domain::leaderboard::{FailedPair, Leaderboard, Pair, Row};
use assize_pipeline::compare::by_scenario;
use assize_report::axis::Axis;
use assize_report::columns::{self, Column};
use assize_report::{axis, figure, sentences, svg};
use axum::extract::State;

use super::board_controls::{Choice, Surroundings, incumbents, splits, tiers};
use super::sealed::instead_of_board;
use super::{Top, board_of, path, runs_of};
use crate::App;
use crate::panel::fields::{Fields, Path, Query, query};
use crate::panel::page::{Frame, PageResult, Visit, blocking, show};
use crate::panel::pair_name::PairName;

/// Scenarios of the table at most: half of them the worst, half the best.
const MOST_SCENARIOS: usize = 40;

#[derive(Template)]
#[template(path = "board.html")]
struct BoardPage {
    frame: Frame,
    top: Top,
    is_computed: bool,
    splits: Vec<Choice>,
    tiers: Vec<Choice>,
    incumbents: Vec<Choice>,
    /// Whether the confirmation split is sealed.
    is_sealed: bool,
    quarantined: usize,
    head: String,
    is_measured: bool,
    main: Table,
    failed: Vec<FailedRow>,
    details: Table,
    axis: String,
    paired: Option<Paired>,
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
    name: PairName,
    link: String,
    is_winner: bool,
    mean: String,
    half: String,
    plot: String,
    /// Headings and figures.
    cells: Vec<(String, String)>,
}

/// A pair whose cells all failed.
struct FailedRow {
    name: PairName,
    link: String,
    cells: u32,
}

/// The differences to the incumbent, scenario by scenario.
struct Paired {
    chart: String,
    wins: String,
    incumbent: String,
    challenger: String,
    rows: Vec<PairedRow>,
    left_out: usize,
}

struct PairedRow {
    scenario: String,
    link: String,
    incumbent: String,
    challenger: String,
    diff: String,
    plot: String,
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
    let name = experiment.to_owned();
    let around = blocking(app, move |app| Surroundings::read(app, &name)).await?;
    let board = &cached.board;
    let by = by_scenario(board, &cached.cells);
    show(&BoardPage {
        frame: Frame::new("experiments", visit),
        used: sentences::confirmation_use(board),
        splits: splits(split, around.is_unsealed),
        tiers: tiers(board.tier, &cached.cells),
        incumbents: incumbents(fields, &cached.cells),
        is_sealed: !around.is_unsealed,
        quarantined: around.quarantined,
        is_computed: board.computed,
        head: format!("composite{}", sentences::of_maximum(board)),
        is_measured: axis::is_measured(board),
        main: table(board, &columns::deciding(board)),
        failed: board
            .failed_pairs
            .iter()
            .map(|it| failed(board, it))
            .collect(),
        details: table(board, &columns::explaining(board)),
        axis: svg::forest_axis(board),
        paired: paired(board, &by),
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
        name: PairName::of(&row.pair()),
        link: runs_of(&board.experiment, &board.split, &row.model, &row.prompt),
        is_winner: sentences::is_winner(board, row),
        mean: figure::plain(row.composite.mean),
        half: axis::interval(row).map(figure::half).unwrap_or_default(),
        plot: svg::forest_cell(board, row),
        cells: columns
            .iter()
            .map(|column| (column.head.clone(), column.cell(row)))
            .collect(),
    };
    Table {
        rows: board.rows.iter().map(line).collect(),
        heads: columns.iter().map(|column| column.head.clone()).collect(),
    }
}

fn failed(board: &Leaderboard, it: &FailedPair) -> FailedRow {
    FailedRow {
        name: PairName::of(&it.pair),
        link: runs_of(
            &board.experiment,
            &board.split,
            &it.pair.model,
            &it.pair.prompt,
        ),
        cells: it.cells,
    }
}

fn paired(board: &Leaderboard, by: &ByScenario) -> Option<Paired> {
    let (incumbent, challenger) = (board.incumbent.as_ref()?, by.challenger.as_ref()?);
    let diffs = by.scenarios.iter().filter_map(|row| row.diff);
    let axis = Axis::covering(diffs.chain([0.0]), 4.0)?;
    let line = |row: &&ScenarioRow| {
        let mean = |pair: &Pair| {
            let mut means = row.pairs.iter();
            figure::optional(
                means.find(|it| it.pair == *pair).map(|it| it.mean),
                figure::plain,
            )
        };
        PairedRow {
            link: runs_in(board, &row.scenario),
            scenario: row.scenario.clone(),
            incumbent: mean(incumbent),
            challenger: mean(challenger),
            diff: figure::optional(row.diff, figure::signed),
            plot: row
                .diff
                .map(|diff| svg::difference_cell(&axis, diff))
                .unwrap_or_default(),
        }
    };
    // The worst first: they are what to look at before a promotion.
    let compared: Vec<&ScenarioRow> = by
        .scenarios
        .iter()
        .filter(|it| it.diff.is_some())
        .rev()
        .collect();
    let left_out = compared.len().saturating_sub(MOST_SCENARIOS);
    let half = MOST_SCENARIOS / 2;
    let (worst, best) = if left_out > 0 {
        (&compared[..half], &compared[compared.len() - half..])
    } else {
        (&compared[..], &[][..])
    };
    Some(Paired {
        chart: svg::paired(board, by)?,
        wins: sentences::answers::wins(by),
        incumbent: incumbent.to_string(),
        challenger: challenger.to_string(),
        rows: worst.iter().chain(best).map(line).collect(),
        left_out,
    })
}

/// The URL of the list of a scenario's runs.
fn runs_in(board: &Leaderboard, scenario: &str) -> String {
    let split = Some(board.split.as_str()).filter(|it| *it != "selection");
    let fields = [("scenario", Some(scenario)), ("split", split)];
    format!("{}/runs{}", path(&board.experiment), query(&fields))
}

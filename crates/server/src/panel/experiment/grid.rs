//! The grid tab: a heat map of model × prompt, overall and for every scenario.

use askama::Template;
use assize_domain::leaderboard::Leaderboard;
use assize_pipeline::compare::Cells;
use assize_report::{figure, svg};
use axum::extract::State;

use super::sealed::instead_of_board;
use super::{Top, board_of};
use crate::App;
use crate::panel::fields::{Fields, Path, Query};
use crate::panel::page::{Frame, PageResult, Visit, show};

/// Scenarios per page.
const SHOWN: usize = 24;
/// The highest shade; the style sheet defines `s0` to `s7`.
const SHADES: f64 = 7.0;

#[derive(Template)]
#[template(path = "grid.html")]
struct GridPage {
    frame: Frame,
    top: Top,
    heat_map: Option<String>,
    multiples: Vec<Multiple>,
    prompts: Vec<String>,
    scenarios: usize,
    page: usize,
    pages: usize,
}

/// One scenario's grid.
struct Multiple {
    scenario: String,
    mean: String,
    rows: Vec<(String, Vec<Shaded>)>,
}

struct Shaded {
    text: String,
    class: &'static str,
}

pub(crate) async fn page(
    State(app): State<App>,
    Path(experiment): Path,
    Query(fields): Query,
    visit: Visit,
) -> PageResult {
    match instead_of_board(&app, &experiment, &fields, &visit, "grid").await? {
        Some(sealed) => Ok(sealed),
        None => render(&app, &experiment, &fields, &visit).await,
    }
}

/// The grid, whether it is sealed or not.
pub(crate) async fn render(
    app: &App,
    experiment: &str,
    fields: &Fields,
    visit: &Visit,
) -> PageResult {
    let (cached, top, _) = board_of(app, experiment, fields, "grid").await?;
    let cells = &cached.cells;
    let pages = cells.scenarios.len().div_ceil(SHOWN).max(1);
    let page = fields.read::<usize>("page")?.unwrap_or(1).clamp(1, pages);
    let (models, prompts) = sides(&cached.board);
    let multiples = hardest_first(cells)
        .into_iter()
        .skip((page - 1) * SHOWN)
        .take(SHOWN)
        .map(|scenario| multiple(cells, scenario, &models, &prompts))
        .collect();
    show(&GridPage {
        frame: Frame::new("experiments", visit),
        heat_map: svg::heat_map(&cached.board),
        multiples,
        prompts: prompts.into_iter().map(str::to_owned).collect(),
        scenarios: cells.scenarios.len(),
        page,
        pages,
        top,
    })
}

/// Models and prompts in the order of their best rank, as in the heat map.
fn sides(board: &Leaderboard) -> (Vec<&str>, Vec<&str>) {
    let (mut models, mut prompts) = (Vec::new(), Vec::new());
    for row in &board.rows {
        for (list, name) in [(&mut models, &row.model), (&mut prompts, &row.prompt)] {
            if !list.contains(&name.as_str()) {
                list.push(name.as_str());
            }
        }
    }
    (models, prompts)
}

fn mean_of(cells: &Cells, scenario: usize) -> Option<f64> {
    let found: Vec<f64> = cells.means.iter().filter_map(|it| it[scenario]).collect();
    let count = found.len() as f64;
    (count > 0.0).then(|| found.iter().sum::<f64>() / count)
}

/// Scenarios with the lowest means first, because they show what can be improved.
fn hardest_first(cells: &Cells) -> Vec<usize> {
    let mut order: Vec<(usize, f64)> = (0..cells.scenarios.len())
        .map(|it| (it, mean_of(cells, it).unwrap_or(f64::INFINITY)))
        .collect();
    order.sort_by(|a, b| a.1.total_cmp(&b.1));
    order.into_iter().map(|(scenario, _)| scenario).collect()
}

fn multiple(cells: &Cells, scenario: usize, models: &[&str], prompts: &[&str]) -> Multiple {
    let all = || cells.means.iter().flatten().flatten().copied();
    let low = all().fold(f64::INFINITY, f64::min);
    let high = all().fold(f64::NEG_INFINITY, f64::max);
    let shaded = |model: &str, prompt: &str| {
        let pair = cells
            .pairs
            .iter()
            .position(|it| it.model == model && it.prompt == prompt);
        let mean = pair.and_then(|pair| cells.means[pair][scenario]);
        Shaded {
            text: figure::optional(mean, figure::plain),
            class: mean.map_or("none", |mean| shade((mean - low) / (high - low))),
        }
    };
    let row = |model: &&str| {
        let cells = prompts.iter().map(|prompt| shaded(model, prompt));
        ((*model).to_owned(), cells.collect())
    };
    Multiple {
        scenario: cells.scenarios[scenario].clone(),
        mean: figure::optional(mean_of(cells, scenario), figure::plain),
        rows: models.iter().map(row).collect(),
    }
}

fn shade(fraction: f64) -> &'static str {
    const CLASSES: [&str; 8] = ["s0", "s1", "s2", "s3", "s4", "s5", "s6", "s7"];
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "the cast saturates, and NaN becomes 0"
    )]
    let step = (fraction * SHADES).round() as usize;
    CLASSES[step.min(CLASSES.len() - 1)]
}

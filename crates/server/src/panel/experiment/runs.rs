//! The runs tab: the runs of an experiment, with filters and pagination in the store.

use askama::Template;
use assize_domain::run::{RunStatus, metric, param, tag};
use assize_domain::scenario::Split;
use assize_domain::sweep::label_of;
use assize_pipeline::seal::{self, RunSeal};
use assize_report::figure;
use assize_store::{Run, RunQuery};
use axum::extract::State;

use super::{Top, path};
use crate::App;
use crate::boards::Boards;
use crate::panel::fields::{Fields, Path, Query, query};
use crate::panel::page::{Frame, PageError, PageResult, Visit, blocking, show};
use crate::panel::relative_time::RelativeTime;

const SHOWN: u32 = 50;
/// The maximum number of suggestions per filter.
const MAX_SUGGESTIONS: usize = 200;

#[derive(Template)]
#[template(path = "runs.html")]
struct RunsPage {
    frame: Frame,
    top: Top,
    filter: Filter,
    suggestions: [(&'static str, Vec<String>); 3],
    runs: Vec<RunRow>,
    /// The URL of the next page.
    older: Option<String>,
    /// The URL of the first page.
    first: Option<String>,
    /// The sortable columns: composite, latency, age.
    heads: [Head; 3],
    splits: [&'static str; 3],
    is_sealed: bool,
}

/// The user's filter, as it was typed. A list never mixes splits.
struct Filter {
    model: String,
    prompt: String,
    scenario: String,
    split: Split,
    state: String,
    order: String,
}

impl Filter {
    fn is_on(&self) -> bool {
        let has_text = [&self.model, &self.prompt, &self.scenario, &self.state]
            .iter()
            .any(|it| !it.is_empty());
        has_text || self.split != Split::Selection
    }

    /// The split for an address; the default needs none.
    fn split_field(&self) -> &'static str {
        Some(self.split)
            .filter(|it| *it != Split::Selection)
            .map_or("", Split::as_str)
    }
}

/// The order of the list.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Order {
    Newest,
    Oldest,
    Best,
    Worst,
    Fastest,
    Slowest,
}

impl Order {
    const ALL: [Self; 6] = [
        Self::Newest,
        Self::Oldest,
        Self::Best,
        Self::Worst,
        Self::Fastest,
        Self::Slowest,
    ];

    const fn as_str(self) -> &'static str {
        match self {
            Self::Newest => "newest",
            Self::Oldest => "oldest",
            Self::Best => "best",
            Self::Worst => "worst",
            Self::Fastest => "fastest",
            Self::Slowest => "slowest",
        }
    }

    fn read(text: &str) -> Result<Self, PageError> {
        if text.is_empty() {
            return Ok(Self::Newest);
        }
        let found = Self::ALL.into_iter().find(|it| it.as_str() == text);
        found.ok_or_else(|| {
            let known = Self::ALL.map(Self::as_str).join(", ");
            PageError::invalid(format!(
                "“{text}” is not a valid order: choose one of {known}"
            ))
        })
    }

    /// The order of a list whose scores may be sealed: an order by score would show them.
    fn shown(self, is_sealed: bool) -> Self {
        let is_by_score = self.metric().is_some_and(|(it, _)| it == metric::COMPOSITE);
        if is_sealed && is_by_score {
            Self::Newest
        } else {
            self
        }
    }

    /// The metric, and whether the order is descending; `None` for age, which is not a metric.
    const fn metric(self) -> Option<(&'static str, bool)> {
        match self {
            Self::Newest | Self::Oldest => None,
            Self::Best => Some((metric::COMPOSITE, true)),
            Self::Worst => Some((metric::COMPOSITE, false)),
            Self::Fastest => Some((metric::LATENCY_MS, false)),
            Self::Slowest => Some((metric::LATENCY_MS, true)),
        }
    }
}

/// A sortable column: its name, and the orders after the first and the second click.
struct SortableColumn(&'static str, Order, Order);

/// In the order of the table.
const HEADS: [SortableColumn; 3] = [
    SortableColumn("composite", Order::Best, Order::Worst),
    SortableColumn("latency", Order::Fastest, Order::Slowest),
    SortableColumn("collected", Order::Newest, Order::Oldest),
];

struct Head {
    name: &'static str,
    /// The URL and the order after a click.
    link: String,
    order: &'static str,
    /// The value of `aria-sort`; empty if the list is not sorted by this column.
    sorted: &'static str,
}

impl SortableColumn {
    fn head(&self, by: Order, address: &impl Fn(&str, Option<&str>) -> String) -> Head {
        let Self(name, first, second) = *self;
        let next = if by == first { second } else { first };
        let is_descending = by.metric().map_or(by == Order::Newest, |(_, it)| it);
        Head {
            name,
            link: address(next.as_str(), None),
            order: next.as_str(),
            sorted: match (by == first || by == second, is_descending) {
                (false, _) => "",
                (true, true) => "descending",
                (true, false) => "ascending",
            },
        }
    }
}

struct RunRow {
    run_id: String,
    short: String,
    model: String,
    prompt: String,
    scenario: String,
    state: &'static str,
    composite: String,
    latency: String,
    judged_by: String,
    started: RelativeTime,
}

pub(crate) async fn page(
    State(app): State<App>,
    Path(experiment): Path,
    Query(fields): Query,
    visit: Visit,
) -> PageResult {
    let top = Top::from_cache(&app, &experiment, "runs").await?;
    let filter = read(&fields)?;
    let run_query = run_query(&filter, fields.owned("page_token"))?;
    let name = experiment.clone();
    let is_confirmation = filter.split == Split::Confirmation;
    let wanted = Order::read(&filter.order)?;
    let is_failed = filter.state == "failed";
    let (found, by, is_sealed) = blocking(&app, move |app| {
        let is_sealed = is_confirmation && !seal::is_open(app.tracking.as_ref(), &name)?;
        let by = wanted.shown(is_sealed);
        // Failed runs have no metrics to sort by.
        let mut found = match by.metric().filter(|_| !is_failed) {
            Some(by) => app.store.mlflow().run_list_by(&name, &run_query, by)?,
            None => app.tracking.run_list(&name, &run_query)?,
        };
        let mut seal = RunSeal::new(app.tracking.as_ref(), None);
        for run in &mut found.runs {
            seal.apply(run)?;
        }
        Ok((found, by, is_sealed))
    })
    .await?;
    let address = |order: &str, token: Option<&str>| {
        let fields = [
            ("model", Some(filter.model.as_str())),
            ("prompt", Some(filter.prompt.as_str())),
            ("scenario", Some(filter.scenario.as_str())),
            ("split", Some(filter.split_field())),
            ("state", Some(filter.state.as_str())),
            ("order", Some(order)),
            ("page_token", token),
        ];
        format!("{}/runs{}", path(&experiment), query(&fields))
    };
    show(&RunsPage {
        frame: Frame::new("experiments", &visit),
        suggestions: suggestions(&app, &experiment),
        older: found
            .next_page_token
            .as_deref()
            .map(|it| address(&filter.order, Some(it))),
        first: fields
            .get("page_token")
            .map(|_| address(&filter.order, None)),
        heads: HEADS.map(|it| it.head(by, &address)),
        runs: found
            .runs
            .iter()
            .map(|it| line(it, is_sealed, &visit))
            .collect(),
        splits: Split::ALL.map(Split::as_str),
        is_sealed,
        filter,
        top,
    })
}

fn read(fields: &Fields) -> Result<Filter, PageError> {
    let text = |name| fields.owned(name).unwrap_or_default();
    Ok(Filter {
        split: fields.read("split")?.unwrap_or(Split::Selection),
        model: text("model"),
        prompt: text("prompt"),
        scenario: text("scenario"),
        state: text("state"),
        order: text("order"),
    })
}

fn run_query(filter: &Filter, page_token: Option<String>) -> Result<RunQuery, PageError> {
    let text = |text: &String| Some(text.clone()).filter(|it| !it.is_empty());
    let (pending, status) = match filter.state.as_str() {
        "" => (None, None),
        "pending" => (Some(true), None),
        "judged" => (Some(false), None),
        "failed" => (None, Some(RunStatus::Failed)),
        other => {
            let message =
                format!("“{other}” is not a valid state: choose pending, judged or failed");
            return Err(PageError::invalid(message));
        }
    };
    Ok(RunQuery {
        model: text(&filter.model),
        prompt: text(&filter.prompt),
        scenario: text(&filter.scenario),
        split: Some(filter.split),
        pending,
        status,
        newest_first: filter.order != "oldest",
        max_results: SHOWN,
        page_token,
    })
}

/// Suggestions for the filters, from the cached board.
fn suggestions(app: &App, experiment: &str) -> [(&'static str, Vec<String>); 3] {
    let (cached, _) = Boards::get_cached(app, experiment);
    let mut lists = [
        ("model", Vec::new()),
        ("prompt", Vec::new()),
        ("scenario", Vec::new()),
    ];
    if let Some(cached) = cached {
        let cells = &cached.cells;
        lists[0].1 = cells.pairs.iter().map(|it| it.model.clone()).collect();
        lists[1].1 = cells.pairs.iter().map(|it| it.prompt.clone()).collect();
        lists[2].1.clone_from(&cells.scenarios);
    }
    for (_, list) in &mut lists {
        list.sort();
        list.dedup();
        list.truncate(MAX_SUGGESTIONS);
    }
    lists
}

fn line(run: &Run, is_sealed: bool, visit: &Visit) -> RunRow {
    let number = |key: &str| {
        let found = run.metrics.iter().find(|(name, _)| name == key);
        found.map(|(_, value)| *value)
    };
    let judged_by = value(&run.tags, tag::JUDGED_BY);
    let judged_by = if judged_by.is_empty() {
        value(&run.tags, tag::AUTO_JUDGED_BY)
    } else {
        judged_by
    };
    RunRow {
        short: run.run_id.chars().take(8).collect(),
        run_id: run.run_id.clone(),
        model: value(&run.params, param::MODEL).to_owned(),
        prompt: label_of(
            value(&run.params, param::PROMPT),
            value(&run.tags, tag::SETTINGS),
        ),
        scenario: value(&run.params, param::SCENARIO).to_owned(),
        state: state(run),
        composite: composite(run, is_sealed),
        latency: figure::optional(number(metric::LATENCY_MS), figure::latency),
        judged_by: judged_by.to_owned(),
        started: RelativeTime::of_ms(run.start_time_ms, visit.now_ms),
    }
}

/// The composite of a run, or that it is sealed.
pub(crate) fn composite(run: &Run, is_sealed: bool) -> String {
    if is_sealed {
        return seal::SEALED.to_owned();
    }
    let mut metrics = run.metrics.iter();
    let found = metrics.find(|(name, _)| name == metric::COMPOSITE);
    figure::optional(found.map(|(_, value)| *value), figure::plain)
}

/// The value of a param or tag; empty if there is none.
pub(crate) fn value<'a>(entries: &'a [(String, String)], key: &str) -> &'a str {
    let found = entries.iter().find(|(name, _)| name == key);
    found.map_or("", |(_, value)| value.as_str())
}

/// The state of a run in one word.
pub(crate) fn state(run: &Run) -> &'static str {
    match run.status {
        RunStatus::Finished if value(&run.tags, tag::JUDGE_PENDING) == "true" => "pending",
        RunStatus::Finished if value(&run.tags, tag::JUDGE_PENDING) == "false" => "judged",
        RunStatus::Finished => "finished",
        RunStatus::Failed => "failed",
        RunStatus::Killed => "killed",
        RunStatus::Running | RunStatus::Scheduled => "running",
    }
}

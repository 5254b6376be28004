//! Chooses the columns of the terminal tables, their widths, and lays out the lines.

use assize_domain::leaderboard::{Leaderboard, Resource, Row, Scores};

use super::Style;
use super::bar;
use super::paint::{Paint, painted};
use super::pareto::FRONTIER;
use crate::axis::Axis;
use crate::text::{clean, pair_width, pairs, shorten, width};
use crate::{axis, figure, sentences};

const GAP: usize = 2;
/// The most columns that a pair's name gets on a terminal of 80 columns.
const PAIR_AT_80: usize = 27;
const LEAST_PAIR: usize = 14;
const MAX_HEAD: usize = 14;
/// Narrower bars are unreadable; wider ones show nothing more.
const BAR_WIDTHS: [usize; 3] = [12, 15, 24];

/// One column with formatted cells, one for each row.
#[derive(Debug, Clone, Default)]
struct Column {
    head: String,
    cells: Vec<String>,
    left: bool,
    is_bar: bool,
    is_pair: bool,
    width: usize,
}

impl Column {
    fn new(head: &str, board: &Leaderboard, cell: impl Fn(&Row) -> String) -> Self {
        let head = shorten(&clean(head), MAX_HEAD);
        let cells: Vec<String> = board.rows.iter().map(cell).collect();
        let width = cells
            .iter()
            .map(|it| width(it))
            .max()
            .unwrap_or(0)
            .max(width(&head));
        Self {
            head,
            cells,
            width,
            ..Self::default()
        }
    }

    fn aligned(&self, text: &str) -> String {
        let blank = " ".repeat(self.width.saturating_sub(width(text)));
        if self.left {
            format!("{text}{blank}")
        } else {
            format!("{blank}{text}")
        }
    }
}

/// The header, the rows and the axis of the bars; then a second table for columns that did not fit.
pub fn lines(board: &Leaderboard, style: Style) -> Vec<String> {
    let axis = Axis::of_composites(board, 5.0);
    let (columns, left) = fitted(board, axis.as_ref(), style);
    let mut lines = table(board, &columns, style.color);
    if let Some(axis) = axis.filter(|_| columns.iter().any(|column| column.is_bar)) {
        let scale = |column: &Column| {
            let text = if column.is_bar {
                bar::scale(&axis, column.width)
            } else {
                String::new()
            };
            (column.aligned(&text), Paint::Faint)
        };
        lines.push(join(&columns, scale, style.color));
    }
    let more = more(board, left, style.width);
    if more.len() > 1 {
        lines.push(String::new());
        lines.extend(table(board, &more, style.color));
    }
    lines
}

fn table(board: &Leaderboard, columns: &[Column], color: bool) -> Vec<String> {
    let head = |column: &Column| (column.aligned(&column.head), Paint::Strong);
    let mut lines = vec![join(columns, head, color)];
    for (position, row) in board.rows.iter().enumerate() {
        let paint = |column: &Column| match () {
            () if column.is_bar => Paint::Bar,
            () if column.is_pair && sentences::is_winner(board, row) => Paint::Winner,
            () => Paint::Plain,
        };
        let cell = |column: &Column| (column.aligned(&column.cells[position]), paint(column));
        lines.push(join(columns, cell, color));
    }
    lines
}

/// Rank and, if there is room, the pair, with as many of these columns as fit.
fn more(board: &Leaderboard, left: Vec<Column>, most: usize) -> Vec<Column> {
    let rank = rank(board);
    let mut spare = most.saturating_sub(rank.width);
    let mut chosen = Vec::new();
    for column in left {
        if let Some(rest) = spare.checked_sub(column.width + GAP) {
            spare = rest;
            chosen.push(column);
        }
    }
    let mut columns = vec![rank];
    if let Some(room) = spare
        .checked_sub(GAP)
        .filter(|room| *room >= LEAST_PAIR && !chosen.is_empty())
    {
        columns.push(names(board, room.min(natural_pair(board))));
    }
    columns.extend(chosen);
    columns
}

fn join(columns: &[Column], cell: impl Fn(&Column) -> (String, Paint), color: bool) -> String {
    let cells: Vec<(String, Paint)> = columns.iter().map(cell).collect();
    let used = cells.iter().rposition(|(text, _)| !text.trim().is_empty());
    let mut line = String::new();
    for (position, (text, paint)) in cells.iter().enumerate().take(used.map_or(0, |it| it + 1)) {
        let text = if Some(position) == used {
            text.trim_end()
        } else {
            text
        };
        if position > 0 {
            line.push_str(&" ".repeat(GAP));
        }
        if text.trim().is_empty() {
            line.push_str(text);
        } else {
            line.push_str(&painted(text, *paint, color));
        }
    }
    line
}

fn rank(board: &Leaderboard) -> Column {
    let mut rank = Column::new("#", board, |row| row.rank.to_string());
    rank.width = rank.width.max(2);
    rank
}

/// The width of the widest pair.
fn natural_pair(board: &Leaderboard) -> usize {
    let widths = board
        .rows
        .iter()
        .map(|row| pair_width(&row.model, &row.prompt));
    widths.max().unwrap_or(0).max(width("model × prompt"))
}

/// The columns that fit, with the widest bar last, and those that do not fit.
fn fitted(board: &Leaderboard, axis: Option<&Axis>, style: Style) -> (Vec<Column>, Vec<Column>) {
    let most = style.width;
    let rank = rank(board);
    let composite = Column::new("composite", board, |row| figure::plain(row.composite.mean));
    let natural = natural_pair(board);
    let pair_share = if most > 80 {
        PAIR_AT_80 + (most - 80) / 4
    } else {
        most * PAIR_AT_80 / 80
    };
    let mut pair_room = natural.min(pair_share.max(LEAST_PAIR));
    let mut spare = most.saturating_sub(rank.width + composite.width + pair_room + 2 * GAP);
    let mut bar_room = 0;
    let mut chosen: Vec<Column> = Vec::new();
    let mut left: Vec<Column> = Vec::new();
    for group in groups(board, axis, style.pareto) {
        let needed: usize = group.iter().map(|column| column.width + GAP).sum();
        if needed > spare {
            left.extend(group.into_iter().filter(|column| !column.is_bar));
            continue;
        }
        spare -= needed;
        if group.iter().any(|column| column.is_bar) {
            bar_room = BAR_WIDTHS[0];
        }
        chosen.extend(group);
    }
    if bar_room > 0 {
        grow(&mut bar_room, BAR_WIDTHS[1], &mut spare);
    }
    grow(&mut pair_room, natural, &mut spare);
    if bar_room > 0 {
        grow(&mut bar_room, BAR_WIDTHS[2], &mut spare);
    }
    let mut columns = vec![rank, names(board, pair_room), composite];
    if let Some(axis) = axis.filter(|_| bar_room > 0) {
        columns.push(bars(board, axis, bar_room));
    }
    columns.extend(chosen.into_iter().filter(|column| !column.is_bar));
    (columns, left)
}

fn names(board: &Leaderboard, room: usize) -> Column {
    Column {
        head: "model × prompt".to_owned(),
        cells: pairs(sentences::pairs(board), room),
        left: true,
        is_bar: false,
        is_pair: true,
        width: room,
    }
}

fn grow(room: &mut usize, to: usize, spare: &mut usize) {
    let more = to.saturating_sub(*room).min(*spare);
    *room += more;
    *spare -= more;
}

/// Groups of further columns, most important first; a group is shown whole or not at all. With
/// `--pareto` the frontier and what it is against come first.
fn groups(board: &Leaderboard, axis: Option<&Axis>, pareto: bool) -> Vec<Vec<Column>> {
    let mut groups = Vec::new();
    if let Some(pareto) = board.pareto.as_ref().filter(|_| pareto) {
        let mark = |row: &Row| if pareto.holds(row) { FRONTIER } else { "" }.to_owned();
        let used = match pareto.against {
            Resource::Latency => latency(board),
            Resource::Cost => cost(board),
        };
        groups.push(vec![used, Column::new("front", board, mark)]);
    }
    let any = |has: &dyn Fn(&Row) -> bool| board.rows.iter().any(has);
    let one = |wanted: bool, column: &dyn Fn() -> Column| {
        if wanted { vec![column()] } else { Vec::new() }
    };
    let shown = board
        .pareto
        .as_ref()
        .filter(|_| pareto)
        .map(|it| it.against);
    let slow = any(&|row| row.latency_ms.is_some()) && shown != Some(Resource::Latency);
    let charged = any(&|row| row.cost_usd_per_1000.is_some()) && shown != Some(Resource::Cost);
    let p95 = one(any(&|row| row.latency_p95_ms.is_some()), &|| {
        Column::new("p95", board, |row| {
            figure::optional(row.latency_p95_ms, figure::latency)
        })
    });
    let speed = one(any(&|row| row.tokens_per_s.is_some()), &|| {
        Column::new("tok/s", board, |row| {
            figure::optional(row.tokens_per_s, figure::speed)
        })
    });
    let thinking = one(any(&|row| row.thinking_tokens.is_some()), &|| {
        Column::new("thinking", board, |row| {
            figure::optional(row.thinking_tokens, figure::speed)
        })
    });
    let uneven = any(&|row| row.scenarios != board.rows[0].scenarios);
    groups.extend([
        one(any(&|row| row.vs_incumbent.is_some()), &|| {
            Column::new("vs incumbent", board, |row| {
                sentences::versus(board, row, figure::half)
            })
        }),
        one(any(&|row| p_adjusted(row).is_some()), &|| {
            Column::new("p adj", board, |row| figure::p_value(p_adjusted(row)))
        }),
        one(axis.is_some(), &|| Column {
            is_bar: true,
            width: BAR_WIDTHS[0],
            ..Column::default()
        }),
        one(uneven, &|| {
            Column::new("scenarios", board, |row| row.scenarios.to_string())
        }),
        one(any(&|row| row.p_best.is_some()), &|| {
            Column::new("p best", board, |row| {
                figure::optional(row.p_best, figure::chance)
            })
        }),
        scores(board, |row| &row.flags, figure::percent),
        one(slow, &|| latency(board))
            .into_iter()
            .chain(speed)
            .collect(),
        one(charged, &|| cost(board)),
        p95,
        thinking,
        scores(board, |row| &row.criteria, figure::plain),
    ]);
    groups.retain(|group| !group.is_empty());
    groups
}

fn latency(board: &Leaderboard) -> Column {
    Column::new("latency", board, |row| {
        figure::optional(row.latency_ms, figure::latency)
    })
}

fn cost(board: &Leaderboard) -> Column {
    Column::new("$ per 1,000", board, |row| {
        figure::optional(row.cost_usd_per_1000, figure::dollars)
    })
}

fn p_adjusted(row: &Row) -> Option<f64> {
    row.vs_incumbent.as_ref().and_then(|it| it.p_adjusted)
}

/// One column for each criterion or flag that some row has.
fn scores(
    board: &Leaderboard,
    of: impl Fn(&Row) -> &Scores,
    write: impl Fn(f64) -> String,
) -> Vec<Column> {
    let names = sentences::score_names(board, &of);
    let column = |name: &str| {
        Column::new(name, board, |row| {
            figure::optional(of(row).get(name).copied(), &write)
        })
    };
    names.into_iter().map(column).collect()
}

fn bars(board: &Leaderboard, axis: &Axis, room: usize) -> Column {
    let incumbent = board
        .rows
        .iter()
        .find(|row| sentences::is_incumbent(board, row));
    let incumbent = incumbent.map(|row| row.composite.mean);
    let cells = board
        .rows
        .iter()
        .map(|row| bar::draw(row, axis, incumbent, room));
    let of = sentences::of_maximum(board);
    let measured = axis::is_measured(board);
    let names = if measured {
        ["95 % interval", "95 %"]
    } else {
        ["mean"; 2]
    };
    let heads = names.map(|name| format!("{name}{of}"));
    let head = heads.into_iter().find(|head| width(head) <= room);
    Column {
        head: head.unwrap_or_else(|| names[1].to_owned()),
        cells: cells.collect(),
        left: true,
        is_bar: true,
        is_pair: false,
        width: room,
    }
}

//! The start page: all experiments with their progress and their leaders.
//!
//! It responds within milliseconds for experiments of any size: counts are cached, and a leader
//! that is not cached is computed in the background and shown as "…".

use askama::Template;
use assize_report::sentences;
use axum::extract::State;

use super::page::{Frame, PageResult, Visit, show};
use super::pair_name::PairName;
use super::relative_time::RelativeTime;
use crate::App;
use crate::boards::{Boards, CachedBoard};

/// How many boards one request may compute in the background.
const MAX_COMPUTED: usize = 20;

#[derive(Template)]
#[template(path = "experiments.html")]
struct ExperimentsPage {
    frame: Frame,
    rows: Vec<Row>,
    pending: u64,
    waiting: bool,
}

struct Row {
    name: String,
    runs: u64,
    pending: u64,
    judged: u64,
    leader: Leader,
    last: RelativeTime,
}

enum Leader {
    /// Not computed yet.
    Unknown,
    /// Nothing is judged yet.
    None,
    /// The winner, or the pair with the highest mean while nothing is significant.
    Pair {
        name: PairName,
        standing: Standing,
        is_auto: bool,
    },
}

/// What the lead is worth.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Standing {
    Winner,
    /// The champion, which no challenger is ahead of.
    ChampionHolds,
    NotSignificant,
}

pub(crate) async fn page(State(app): State<App>, visit: Visit) -> PageResult {
    let list = Boards::experiments(&app).await?;
    let mut newest: Vec<_> = list.iter().collect();
    newest.sort_by_key(|it| std::cmp::Reverse(it.last_updated));
    let mut computed = 0;
    let rows: Vec<Row> = newest
        .into_iter()
        .map(|it| Row {
            name: it.name.clone(),
            runs: it.runs,
            pending: it.pending,
            judged: it.judged,
            leader: leader(&app, &it.name, &mut computed),
            last: RelativeTime::of_ms(it.last_updated, visit.now_ms),
        })
        .collect();
    let mut frame = Frame::new("experiments", &visit);
    let waiting = rows.iter().any(|it| matches!(it.leader, Leader::Unknown));
    if waiting && computed <= MAX_COMPUTED {
        frame.refresh_s = 2;
    }
    show(&ExperimentsPage {
        frame,
        pending: rows.iter().map(|it| it.pending).sum(),
        waiting,
        rows,
    })
}

fn leader(app: &App, experiment: &str, computed: &mut usize) -> Leader {
    if *computed >= MAX_COMPUTED {
        return Leader::Unknown;
    }
    let (board, is_fresh) = Boards::get_cached(app, experiment);
    *computed += usize::from(!is_fresh);
    board.map_or(Leader::Unknown, |it| leader_of(&it))
}

fn leader_of(cached: &CachedBoard) -> Leader {
    let board = &cached.board;
    let decision = board.decision.as_ref();
    let winner = decision.and_then(|it| it.winner.clone());
    let holds = decision.is_some_and(|it| it.champion_holds);
    let champion = board.incumbent.clone().filter(|_| holds);
    let first = board
        .rows
        .first()
        .map(assize_domain::leaderboard::Row::pair);
    let (pair, standing) = match (winner, champion, first) {
        (Some(pair), _, _) => (pair, Standing::Winner),
        (None, Some(pair), _) => (pair, Standing::ChampionHolds),
        (None, None, Some(pair)) => (pair, Standing::NotSignificant),
        (None, None, None) => return Leader::None,
    };
    Leader::Pair {
        name: PairName::of(&pair),
        standing,
        is_auto: sentences::is_automatic(board),
    }
}

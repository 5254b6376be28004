//! The part that all tabs of an experiment share: the decision above the tabs, and their links.

use std::sync::Arc;

use assize_domain::error_kind::ErrorKind;
use assize_domain::leaderboard::{BoardTier, Leaderboard};
use assize_domain::scenario::Split;
use assize_pipeline::compare::CompareOptions;
use assize_report::sentences;

use super::fields::{Fields, query};
use super::page::PageError;
use crate::App;
use crate::boards::{Boards, CachedBoard};

pub(crate) mod auto_judge;
pub(crate) mod board;
pub(crate) mod board_controls;
pub(crate) mod download;
pub(crate) mod grid;
pub(crate) mod history;
pub(crate) mod judges;
pub(crate) mod runs;
pub(crate) mod sealed;

/// The part above the tabs.
#[derive(Debug)]
pub(crate) struct Top {
    pub name: String,
    pub tab: &'static str,
    /// The decision, or why there is none.
    pub sentence: String,
    pub note: Option<&'static str>,
    /// Whether the leader leads by automatic scores alone.
    pub is_auto: bool,
    pub coverage: Option<String>,
    pub warnings: Vec<String>,
    pub pending: u64,
    /// The part of the query that links between tabs preserve.
    pub kept: String,
}

/// The board that a tab shows, the part above the tabs, and the board's split.
pub(crate) async fn board_of(
    app: &App,
    experiment: &str,
    fields: &Fields,
    tab: &'static str,
) -> Result<(Arc<CachedBoard>, Top, Split), PageError> {
    let options = requested_options(experiment, fields)?;
    let pending = pending(app, experiment).await?;
    let (kept, split) = (kept(&options), options.split);
    let cached = Boards::get(app, options).await?;
    let top = Top::of(&cached.board, tab, pending, kept);
    Ok((cached, top, split))
}

/// The options of the requested board.
fn requested_options(experiment: &str, fields: &Fields) -> Result<CompareOptions, PageError> {
    let split: Option<Split> = fields.read("split")?;
    Ok(CompareOptions {
        tier: fields.read::<BoardTier>("tier")?,
        incumbent: fields.owned("incumbent"),
        split: split.unwrap_or(Split::Selection),
        ..CompareOptions::usual(experiment)
    })
}

/// The query for the same board.
fn kept(options: &CompareOptions) -> String {
    let split = Some(options.split.as_str()).filter(|_| options.split != Split::Selection);
    query(&[
        ("tier", options.tier.map(BoardTier::as_str)),
        ("split", split),
        ("incumbent", options.incumbent.as_deref()),
    ])
}

impl Top {
    pub fn of(board: &Leaderboard, tab: &'static str, pending: u64, kept: String) -> Self {
        let sentence = sentences::nothing_to_rank(board).or_else(|| sentences::decision(board));
        Self {
            name: board.experiment.clone(),
            tab,
            sentence: sentence.unwrap_or_else(|| "Leaderboard".to_owned()),
            note: sentences::tier_note(board),
            is_auto: sentences::is_automatic(board) && !board.rows.is_empty(),
            coverage: sentences::coverage(board),
            warnings: board.warnings.clone(),
            pending,
            kept,
        }
    }

    /// From the cached board, for tabs that must not wait for its computation.
    pub async fn from_cache(
        app: &App,
        experiment: &str,
        tab: &'static str,
    ) -> Result<Self, PageError> {
        let pending = pending(app, experiment).await?;
        let (cached, _) = Boards::get_cached(app, experiment);
        Ok(match cached {
            Some(it) => Self::of(&it.board, tab, pending, String::new()),
            None => Self {
                name: experiment.to_owned(),
                tab,
                sentence: experiment.to_owned(),
                note: None,
                is_auto: false,
                coverage: None,
                warnings: Vec::new(),
                pending,
                kept: String::new(),
            },
        })
    }
}

/// The number of runs that are pending for the expert tier.
async fn pending(app: &App, experiment: &str) -> Result<u64, PageError> {
    let list = Boards::experiments(app).await?;
    let found = list.iter().find(|it| it.name == experiment);
    found.map(|it| it.pending).ok_or_else(|| {
        PageError::new(
            ErrorKind::NotFound,
            format!("There is no experiment “{experiment}” with runs that Assize collected."),
        )
    })
}

/// The URL of the list of a pair's runs. Boards write `name@hash` if a name has had two contents;
/// the list filters by name only.
pub(crate) fn runs_of(experiment: &str, split: &str, model: &str, prompt: &str) -> String {
    let plain = |name: &str| -> String {
        let parts = name
            .rsplit_once('@')
            .filter(|(_, hash)| hash.len() == 6 && hash.bytes().all(|it| it.is_ascii_hexdigit()));
        parts.map_or(name, |(name, _)| name).to_owned()
    };
    let (model, prompt) = (plain(model), plain(prompt));
    let fields = [
        ("model", Some(&*model)),
        ("prompt", Some(&*prompt)),
        (
            "split",
            Some(split).filter(|it| *it != Split::Selection.as_str()),
        ),
    ];
    format!("{}/runs{}", path(experiment), query(&fields))
}

/// The URL path of an experiment.
pub(crate) fn path(experiment: &str) -> String {
    format!("/experiments/{}", segment(experiment))
}

/// A name, encoded as one segment of a URL path.
pub(crate) fn segment(name: &str) -> String {
    // The serialiser encodes a space as a plus, which is only valid in a query.
    let encoded: String = form_urlencoded::byte_serialize(name.as_bytes()).collect();
    encoded.replace('+', "%20")
}

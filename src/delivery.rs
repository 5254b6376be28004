//! Opens the journal for a tracking server, and reports undelivered cells to the user.

use std::path::Path;
use std::sync::Arc;

use assize_http::place_of;
use assize_pipeline::counted;
use assize_pipeline::journal::{Journal, Notice};
use assize_store::state::State;
use assize_store::{Cells, Tracking};

use crate::environment::{self, STATE_DIR};
use crate::output::{Output, safe};
use crate::tracking::OpenStore;

/// The state of this folder, with the journal's addresses in their current spelling: earlier
/// versions kept a default port such as `:80`.
pub fn open_state() -> anyhow::Result<State> {
    let state = State::open(Path::new(STATE_DIR))?;
    state.journal_places_respell(&place_of)?;
    Ok(state)
}

/// Puts this folder's journal before a remote store, and delivers what waits in it. A command
/// that only reads makes no journal where there is none.
pub fn journaled<S: Tracking + Cells + 'static>(
    store: Arc<S>,
    only_reads: bool,
    output: &Output,
) -> anyhow::Result<OpenStore> {
    let folder = Path::new(STATE_DIR);
    if only_reads && !folder.join("state.db").exists() {
        return Ok(OpenStore::direct(store));
    }
    let uri = store.uri().to_owned();
    let tell = {
        let (uri, output) = (uri.clone(), output.clone());
        move |notice: &Notice| output.say(&safe(&words(&uri, notice)))
    };
    let journal = Arc::new(Journal::new(
        Arc::clone(&store) as Arc<dyn Cells>,
        &uri,
        Arc::new(open_state()?),
        folder.join("locks"),
        environment::now_ms,
        Box::new(tell),
    ));
    let delivered = journal.deliver(&|| false)?.delivered;
    if delivered > 0 {
        output.say(&format!(
            "Delivered {} that waited for {uri}.",
            counted(delivered, "cell", "cells")
        ));
    }
    Ok(OpenStore {
        store,
        cells: Arc::clone(&journal) as Arc<dyn Cells>,
        journal: Some(journal),
    })
}

fn words(uri: &str, notice: &Notice) -> String {
    match notice {
        Notice::Unreachable { reason } => format!(
            "The tracking server {uri} is unreachable ({reason}). Generated cells are kept in \
             {STATE_DIR}/state.db and delivered when it answers again."
        ),
        Notice::Reachable { waiting: 0 } => format!("The tracking server {uri} answers again."),
        Notice::Reachable { waiting } => {
            let cells = counted(*waiting, "cell", "cells");
            format!("The tracking server {uri} answers again; {cells} will be delivered.")
        }
        Notice::Refused { cell, reason } => format!(
            "The tracking server {uri} refuses the cell {cell}: {reason}. It stays in \
             {STATE_DIR}/state.db."
        ),
    }
}

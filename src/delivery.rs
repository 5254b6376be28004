//! The journal before a tracking server, and what people are told of it.

use std::path::Path;
use std::sync::Arc;

use assize_pipeline::journaled::{Journaled, Notice};
use assize_store::Tracking;
use assize_store::state::State;

use crate::environment::{self, STATE_DIR};
use crate::output::{Output, safe};

/// Puts this folder's journal before a remote store, and delivers what waits in it. A command
/// that only reads makes no journal where there is none.
pub fn journaled(
    store: Arc<dyn Tracking>,
    only_reads: bool,
    output: &Output,
) -> anyhow::Result<Arc<dyn Tracking>> {
    let folder = Path::new(STATE_DIR);
    if only_reads && !folder.join("state.db").exists() {
        return Ok(store);
    }
    let uri = store.uri().to_owned();
    let tell = {
        let (uri, output) = (uri.clone(), output.clone());
        move |notice: &Notice| output.say(&safe(&words(&uri, notice)))
    };
    let store = Journaled::new(
        store,
        Arc::new(State::open(folder)?),
        folder.join("locks"),
        environment::now_ms,
        Box::new(tell),
    );
    let delivered = store.deliver(&|| false)?.delivered;
    if delivered > 0 {
        output.say(&format!(
            "Delivered {delivered} cells that waited for {uri}."
        ));
    }
    Ok(Arc::new(store))
}

fn words(uri: &str, notice: &Notice) -> String {
    match notice {
        Notice::Away { reason } => format!(
            "The tracking server {uri} is away ({reason}). What is generated is kept in \
             {STATE_DIR}/state.db and delivered when it is back."
        ),
        Notice::Back { waiting: 0 } => format!("The tracking server {uri} is back."),
        Notice::Back { waiting } => {
            format!("The tracking server {uri} is back; {waiting} cells are to be delivered.")
        }
        Notice::Refused { cell, reason } => format!(
            "The tracking server {uri} does not take {cell}: {reason}. It stays in \
             {STATE_DIR}/state.db."
        ),
    }
}

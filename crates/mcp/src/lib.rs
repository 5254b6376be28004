//! The judging queue and the packets of prompt loops as an MCP server on stdio, for agent sessions.
//!
//! `server` implements the protocol, `agent_session` does the work: a thin layer over the queue of
//! `assize-pipeline`. The only async runtime of the binary lives in [`serve`], on one thread;
//! the queue and its store block, and are called on threads where that is allowed.
//!
//! Deliberately absent: any tool that could tell which model or prompt wrote a case. The board and
//! the packets of a loop are refused while this judge has a sitting open.

use assize_domain::error_kind::ErrorKind;

mod agent_session;
mod reflecting;
mod server;
mod wire;

pub use agent_session::{
    AnchorReader, BoardReader, Clock, EndObserver, SessionConfig, StateOpener, StoreOpener,
};
pub use server::serve;

const GUIDE: &str = include_str!("guide.md");
const REFLECT: &str = include_str!("reflect.md");

/// How to sit as a judge, in words for an agent. `arguments` is what its user typed, or the
/// placeholder that the agent's client replaces by it; `kind` is the judge's kind.
pub fn guide(arguments: &str, kind: &str) -> String {
    GUIDE
        .replace("{arguments}", arguments)
        .replace("{kind}", kind)
}

/// How to answer the packets of a prompt loop, in words for an agent; `arguments` as for [`guide`].
pub fn reflect_guide(arguments: &str) -> String {
    REFLECT.replace("{arguments}", arguments)
}

/// Why the server could not do its work.
#[derive(Debug, thiserror::Error)]
pub enum McpError {
    #[error("the MCP server could not start: {0}")]
    Start(String),
    #[error("the MCP session was interrupted: {0}")]
    Broken(String),
}

impl McpError {
    /// What kind of error it is.
    pub const fn kind(&self) -> ErrorKind {
        match self {
            Self::Start(_) | Self::Broken(_) => ErrorKind::Io,
        }
    }
}

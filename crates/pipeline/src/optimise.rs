//! Optimise: the loop that writes new versions of a prompt, races them, and puts the best before the
//! promotion gate.
//!
//! `assize_optimise` decides what comes next from the loop's log alone; this module does it: it
//! collects and judges cells ([`cells`]), asks the reflector ([`reflector`]), runs the gate ([`ship`]) and
//! appends one event for each thing that is done ([`step`]). Cells and verdicts are found again by their
//! keys, so a step can be killed anywhere.
//!
//! **Two experiments.** The race's cells of the feedback split are tracked in `EXPERIMENT.search`, so that
//! children that are not nominated appear neither in the judges' queue nor on the board. Nominee and
//! incumbent are tracked in the experiment itself, and wait there for experts like all runs.

use std::fmt;
use std::path::PathBuf;
use std::sync::atomic::AtomicBool;

use assize_domain::model::ModelId;
use assize_domain::options::Options;
use assize_domain::prompt::Prompt;
use assize_domain::task::Task;
use assize_optimise::{LoopSettings, Tree, Version};
use assize_store::state::State;
use assize_store::{Cells, Tracking};

use crate::events::LoopEntry;
use crate::guard::Guard;
use crate::journal::Journal;
use crate::judge::Entropy;
use crate::judge::auto::{Prices, Progress};
use crate::ledger::Author;
use crate::promote::Thresholds;
use crate::size_gate::SizedModel;
use crate::{Clock, Now, Result, collect};

pub mod calibrate;
mod cells;
mod feedback;
mod log;
pub mod looks;
mod mirror;
pub mod packets;
mod plan;
mod preflight;
pub mod reflector;
mod screening;
mod setup;
mod ship;
mod smoke;
mod start;
mod step;
mod words;

pub use log::LoopLog;
pub use plan::{LoopPlan, PlannedCost};
pub use setup::Setup;
pub use start::{StartOptions, Starting};
pub use step::{Extent, Stepped, turn};
pub use words::waiting;

/// Whose desk the cells of the race wait on: nobody's, they are for the automatic judge.
pub const SEARCH_KIND: &str = "optimise";

const SEARCH: &str = ".search";

/// The experiment that holds the cells of a loop's race.
pub fn search_experiment(experiment: &str) -> String {
    format!("{experiment}{SEARCH}")
}

/// The experiment whose race this one holds, by its name. Such cells are not for experts.
pub fn searched_experiment(experiment: &str) -> Option<&str> {
    experiment.strip_suffix(SEARCH).filter(|it| !it.is_empty())
}

/// Finds models when they are needed: a step that only waits asks no host.
pub trait LoopModels {
    /// A model that generates, admitted by the size gate.
    fn generator(&self, id: &str) -> Result<SizedModel>;

    /// The automatic judge.
    fn judge(&self, id: &str) -> Result<SizedModel>;

    /// A model that writes new versions.
    fn reflector(&self, id: &ModelId) -> Result<SizedModel>;
}

/// What a loop works with.
pub struct LoopContext<'a> {
    pub experiment: &'a str,
    pub settings: &'a LoopSettings,
    pub setup: &'a Setup,
    pub state: &'a State,
    pub store: &'a dyn Tracking,
    /// Where cells are recorded: the store, or the journal before it.
    pub cells: &'a dyn Cells,
    pub journal: Option<&'a Journal>,
    pub guard: &'a Guard,
    /// Folder for locks.
    pub locks: PathBuf,
    /// Where the task's files are, as runs record it.
    pub task_source: &'a str,
    /// How the user names the task.
    pub task_place: &'a str,
    /// The usual options of a collection.
    pub values: &'a Options,
    pub models: &'a dyn LoopModels,
    /// What tokens cost, where providers do not say.
    pub prices: Option<Prices>,
    pub thresholds: &'a Thresholds,
    /// Who runs the step, for the ledger.
    pub author: &'a dyn Fn() -> Author,
    pub clock: Clock,
    pub now: fn() -> Now,
    pub entropy: Entropy,
    /// Set by Ctrl-C.
    pub stop: &'a AtomicBool,
    pub version: &'a str,
    /// Progress of collections and of the automatic judge.
    pub observer: collect::Observer<'a>,
    pub progress: Progress<'a>,
    /// Called with each event that was appended to the log.
    pub logged: &'a dyn Fn(LoopEntry),
    /// Called with what else there is to say.
    pub tell: &'a dyn Fn(&str),
}

impl fmt::Debug for LoopContext<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LoopContext")
            .field("experiment", &self.experiment)
            .finish_non_exhaustive()
    }
}

impl LoopContext<'_> {
    /// Adds the incumbent's prompt and every version of the tree to the task. They win over files of the
    /// same name: what was recorded is what is collected.
    fn add_versions(&self, task: &mut Task, tree: &Tree) {
        let children = tree.nodes.iter().map(|it| (&it.version, &*it.hypothesis));
        for (version, description) in [(&self.setup.incumbent, "")].into_iter().chain(children) {
            add_version(task, version, description);
        }
    }
}

/// Adds a version to the task in memory. One that is not valid is left out: a screen rejects it.
fn add_version(task: &mut Task, version: &Version, description: &str) {
    let is_it = |prompt: &Prompt| prompt.name == version.name && prompt.sha256 == version.sha256;
    if task.prompts.iter().any(is_it) {
        return;
    }
    if let Ok(prompt) = version.to_prompt(description, None) {
        task.prompts.retain(|it| it.name != prompt.name);
        task.prompts.push(prompt);
    }
}

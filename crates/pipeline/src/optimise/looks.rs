//! How many different nominees the confirmation split has seen.
//!
//! The test of the confirmation stays valid however often one nominee is tried on more scenarios. Trying
//! different nominees on the same scenarios is another matter: each is a new chance of a false
//! promotion. The ledgers of the experiments know every attempt that saw the split, and the runs know
//! on which scenarios. An attempt counts while most of the scenarios that the task has now are among
//! those that it used; new scenarios start a new count.

use std::collections::{BTreeMap, BTreeSet};

use assize_domain::ledger::Kind;
use assize_domain::scenario::Split;
use assize_domain::task::Task;
use assize_store::{StoreError, Tracking};

use crate::Result;

/// From so many different nominees on, a warning says that the split wears out.
pub const WARN_FROM: usize = 5;
/// After so many different nominees, new confirmation scenarios are needed.
pub const MOST: usize = 10;

/// The different nominees whose attempts have seen this task's confirmation scenarios, as
/// `EXPERIMENT: MODEL/PROMPT`.
pub fn nominees(store: &dyn Tracking, task: &Task) -> Result<BTreeSet<String>> {
    let current: BTreeSet<&str> = task
        .split(Split::Confirmation)
        .map(|it| it.sha256.as_str())
        .collect();
    let mut nominees = BTreeSet::new();
    for experiment in store.experiment_list()? {
        let name = experiment.name;
        let candidates: BTreeSet<(String, String)> = store
            .ledger_list(&name)?
            .into_iter()
            .filter(|it| it.kind == Kind::Attempt && it.has_seen_confirmation())
            .filter_map(|it| it.candidate)
            .map(|it| (it.model, it.prompt))
            .collect();
        if candidates.is_empty() {
            continue;
        }
        let used = scenarios_used(store, &name)?;
        for (model, prompt) in candidates {
            let of_pair = used.iter().filter(|((own_model, own_prompt), _)| {
                is_shown_as(own_model, &model) && is_shown_as(own_prompt, &prompt)
            });
            let shared: BTreeSet<&str> = of_pair
                .flat_map(|(_, scenarios)| scenarios.iter().map(String::as_str))
                .filter(|it| current.contains(it))
                .collect();
            let shared = shared.len();
            if 2 * shared > current.len() {
                nominees.insert(format!("{name}: {model}/{prompt}"));
            }
        }
    }
    Ok(nominees)
}

/// Whether a board shows a name like this: as it is, or with a hash (`v1@3fa2c1`) where the name has had
/// several contents. A name may hold an `@` of its own.
fn is_shown_as(name: &str, shown: &str) -> bool {
    let Some(rest) = shown.strip_prefix(name) else {
        return false;
    };
    let hash = rest.strip_prefix('@');
    rest.is_empty()
        || hash.is_some_and(|it| it.len() == 6 && it.chars().all(|c| c.is_ascii_hexdigit()))
}

/// By pair: the contents of the confirmation scenarios that it was collected on.
fn scenarios_used(
    store: &dyn Tracking,
    experiment: &str,
) -> Result<BTreeMap<(String, String), BTreeSet<String>>> {
    let mut used: BTreeMap<(String, String), BTreeSet<String>> = BTreeMap::new();
    let visited = store.board_each(experiment, Split::Confirmation, &mut |run| {
        let pair = (run.model.to_owned(), run.prompt.to_owned());
        let scenarios = used.entry(pair).or_default();
        scenarios.insert(run.scenario_sha256.to_owned());
        Ok(())
    });
    match visited {
        Ok(()) | Err(StoreError::NoExperiment { .. }) => Ok(used),
        Err(error) => Err(error.into()),
    }
}

/// What to tell the user about so many nominees; an error text where no further one is allowed.
pub fn judge_looks(nominees: usize) -> std::result::Result<Option<String>, String> {
    if nominees >= MOST {
        return Err(format!(
            "{nominees} different nominees have seen the confirmation scenarios of this task, so a further one \
             could pass by chance. Replace them: remove them, and add new \
             scenarios with split = \"confirmation\""
        ));
    }
    Ok((nominees >= WARN_FROM).then(|| {
        format!(
            "{nominees} different nominees have seen the confirmation scenarios of this task; after {MOST} \
             new scenarios are needed"
        )
    }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_known_with_the_hash_of_a_board_and_with_an_at_sign_of_its_own() {
        for (name, shown, expected) in [
            ("v1", "v1", true),
            ("v1", "v1@3fa2c1", true),
            ("scripted:m@2", "scripted:m@2", true),
            ("scripted:m@2", "scripted:m@2@3fa2c1", true),
            ("scripted:m", "scripted:m@2", false),
            ("v1", "v1.r1c1", false),
            ("v1", "v1@mentor", false),
        ] {
            assert_eq!(is_shown_as(name, shown), expected, "{name} {shown}");
        }
    }

    #[test]
    fn a_warning_comes_at_five_and_a_refusal_after_ten() {
        assert_eq!(judge_looks(4), Ok(None));
        assert!(judge_looks(5).is_ok_and(|it| it.is_some()));
        assert!(judge_looks(9).is_ok_and(|it| it.is_some()));
        assert!(judge_looks(10).is_err());
    }
}

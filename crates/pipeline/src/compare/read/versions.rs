//! Versions of scenarios: one scenario id is one block.
//!
//! A scenario can be edited between two collections. Its versions share texts, difficulty and
//! mostly also outputs, so two of them are not two independent observations. Only the current version
//! counts: the one in the task's files where these are at hand, else the one of the newest run.
//! The verdicts on other versions stay in the store and are reported, never counted.

use std::collections::{BTreeMap, BTreeSet};

use assize_domain::leaderboard::OlderVersion;
use assize_domain::scenario::{Scenario, Split};
use assize_domain::task::{Task, TaskScenarios};

use super::Scores;
use super::tier_scores::{CellSums, TierScores};
use crate::compare::harm::Segments;

/// A field with more values than this share of the scenarios tells them apart instead of grouping
/// them.
const MOST_VALUES: f64 = 0.5;

/// The scenarios of a task as its files have them now.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct CurrentScenarios {
    pub task: String,
    /// By id: the content's hash and the split.
    scenarios: BTreeMap<String, (String, Split)>,
    /// By id: the scalar fields.
    fields: BTreeMap<String, Vec<(String, String)>>,
}

impl From<&Task> for CurrentScenarios {
    fn from(task: &Task) -> Self {
        Self::new(&task.name, &task.scenarios)
    }
}

impl From<&TaskScenarios> for CurrentScenarios {
    fn from(found: &TaskScenarios) -> Self {
        Self::new(&found.task, &found.scenarios)
    }
}

impl CurrentScenarios {
    fn new(task: &str, scenarios: &[Scenario]) -> Self {
        Self {
            task: task.to_owned(),
            scenarios: scenarios
                .iter()
                .map(|it| (it.id.clone(), (it.sha256.clone(), it.split)))
                .collect(),
            fields: scenarios
                .iter()
                .map(|it| {
                    let scalars = it.scalars();
                    let scalars = scalars.map(|(name, value)| (name.to_owned(), value));
                    (it.id.clone(), scalars.collect())
                })
                .collect(),
        }
    }

    /// The hash of a scenario's content in a split, if it is there.
    fn sha256(&self, id: &str, split: Split) -> Option<&str> {
        let (sha256, of) = self.scenarios.get(id)?;
        (*of == split).then_some(sha256)
    }

    /// The fields whose values group these scenarios.
    pub fn segments(&self, scenarios: &[(String, String)]) -> Vec<Segments> {
        let of = |id: &str| self.fields.get(id).map_or(&[][..], Vec::as_slice);
        let all = scenarios.iter().flat_map(|(id, _)| of(id));
        let names: BTreeSet<&str> = all.map(|(name, _)| name.as_str()).collect();
        let segments = names.into_iter().map(|field| {
            let value = |id: &str| {
                let found = of(id).iter().find(|(name, _)| name == field);
                found.map(|(_, value)| value.as_str())
            };
            let by_scenario: Vec<Option<&str>> =
                scenarios.iter().map(|(id, _)| value(id)).collect();
            let values: BTreeSet<&str> = by_scenario.iter().flatten().copied().collect();
            let values: Vec<&str> = values.into_iter().collect();
            let place = |value: &str| values.binary_search(&value).ok();
            Segments {
                field: field.to_owned(),
                value_of: by_scenario.iter().map(|it| it.and_then(place)).collect(),
                values: values.iter().map(|it| (*it).to_owned()).collect(),
            }
        });
        let most = scenarios.len() as f64 * MOST_VALUES;
        segments
            .filter(|it| it.values.len() >= 2 && it.values.len() as f64 <= most)
            .collect()
    }
}

impl Scores {
    /// Leaves only the current version of every scenario; the rest is only listed.
    pub fn keep_current(&mut self, current: Option<&CurrentScenarios>, split: Split) {
        let current = current.filter(|it| self.task.is_empty() || it.task == self.task);
        let kept = self.current_places(current, split);
        if kept.len() == self.scenarios.len() {
            return;
        }
        let mut new_place: Vec<Option<usize>> = vec![None; self.scenarios.len()];
        for (new, old) in kept.iter().enumerate() {
            new_place[*old] = Some(new);
        }
        self.older = self.list_older(&new_place);
        for runs in &mut self.runs {
            runs.retain_mut(|run| match new_place[run.scenario] {
                Some(place) => {
                    run.scenario = place;
                    true
                }
                None => false,
            });
        }
        for tier in self.tiers.values_mut() {
            tier.keep(&kept, &new_place);
        }
        self.tiers.retain(|_, tier| !tier.rows.is_empty());
        self.scenarios = kept
            .iter()
            .map(|old| self.scenarios[*old].clone())
            .collect();
        for versions in self.scenario_index.values_mut() {
            versions.retain_mut(|(_, place)| match new_place[*place] {
                Some(new) => {
                    *place = new;
                    true
                }
                None => false,
            });
        }
    }

    /// The places of the versions that count, in the order of the first runs.
    fn current_places(&self, current: Option<&CurrentScenarios>, split: Split) -> Vec<usize> {
        let is_current = |place: usize, (id, sha256): &(String, String)| {
            let versions = &self.scenario_index[id];
            let newest = || versions.iter().max_by_key(|it| self.last_seen[it.1]);
            match current {
                // Runs of older tools do not name a version: they stand for the current one
                // unless a run names it.
                Some(current) => current.sha256(id, split).is_some_and(|wanted| {
                    let is_named = versions.iter().any(|it| it.0 == wanted);
                    sha256 == wanted || (sha256.is_empty() && !is_named)
                }),
                None => newest().is_some_and(|it| it.1 == place),
            }
        };
        let places = self.scenarios.iter().enumerate();
        places
            .filter(|(place, version)| is_current(*place, version))
            .map(|(place, _)| place)
            .collect()
    }

    fn list_older(&self, new_place: &[Option<usize>]) -> Vec<OlderVersion> {
        let mut runs = vec![0_u64; self.scenarios.len()];
        for run in self.runs.iter().flatten() {
            runs[run.scenario] += 1;
        }
        let places = self.scenarios.iter().enumerate();
        let older = places.filter(|(place, _)| new_place[*place].is_none());
        let of_place = |(place, (id, sha256)): (usize, &(String, String))| {
            let judged = self.tiers.values().map(|tier| tier.candidates_in(place));
            OlderVersion {
                scenario: id.clone(),
                sha256: sha256.clone(),
                runs: runs[place],
                judged: judged.max().unwrap_or(0),
            }
        };
        older.map(of_place).collect()
    }
}

impl TierScores {
    /// Judged candidates of all pairs in a scenario.
    fn candidates_in(&self, scenario: usize) -> u64 {
        let cells = self.cells.iter().filter_map(|it| it.get(scenario));
        cells.map(|it| u64::from(it.candidates)).sum()
    }

    fn keep(&mut self, kept: &[usize], new_place: &[Option<usize>]) {
        self.rows.retain_mut(|row| match new_place[row.block] {
            Some(place) => {
                row.block = place;
                true
            }
            None => false,
        });
        self.shares.retain_mut(|share| {
            let place = new_place[share.scenario as usize];
            share.scenario = place.and_then(|it| u32::try_from(it).ok()).unwrap_or(0);
            place.is_some()
        });
        let width = self.width;
        for (cells, sums) in self.cells.iter_mut().zip(&mut self.sums) {
            let mut current = vec![CellSums::default(); kept.len()];
            let mut current_sums = vec![0.0; kept.len() * width];
            for (new, old) in kept.iter().enumerate() {
                let Some(cell) = cells.get(*old) else {
                    continue;
                };
                current[new] = *cell;
                current_sums[new * width..(new + 1) * width]
                    .copy_from_slice(&sums[old * width..(old + 1) * width]);
            }
            (*cells, *sums) = (current, current_sums);
        }
    }
}

//! The loop as MLflow's own tools show one: a run with the keys of `mlflow.genai.optimize_prompts`, and
//! nominees as versions in the prompt registry.
//!
//! Everything here is derived from the log and written as additions, so it can be repeated at any time.
//! Differences to MLflow's optimiser: `eval_score` is measured on the feedback split, which selects, and
//! `final_eval_score` on the confirmation split, which does not; it is written once that split is open.
//!
//! | key | value |
//! |---|---|
//! | params `optimizer`, `num_prompts`, `num_training_samples`, `source_prompt_uri` | who, how many prompts, feedback scenarios, the seed |
//! | `initial_eval_score` | the seed's mean in the race |
//! | `eval_score`, by step | after each round, the mean of the version that the next one starts from |
//! | `final_eval_score` | the nominee's mean on the confirmation split |
//! | `prompt_candidates/iteration_N/` | the children's texts, `eval_results.json`, `scores.json` |
//! | tag `mlflow.linkedPrompts` | the registered nominee |

use std::collections::BTreeMap;

use assize_domain::promotion::Nominee;
use assize_domain::run::{CellRecord, RunStatus, tag};
use assize_domain::scenario::Split;
use assize_domain::task::Task;
use assize_optimise::event::RoundEnded;
use assize_optimise::{Node, State, Tree};
use assize_store::mlflow::{Entry, Point};
use assize_store::{Additions, ImportedRun, WholeRun};
use serde_json::json;

use super::ship::Finalists;
use super::{LoopContext, LoopLog};
use crate::{Result, seal};

const INITIAL: &str = "initial_eval_score";
const BY_STEP: &str = "eval_score";
const FINAL: &str = "final_eval_score";
const LINKED: &str = "mlflow.linkedPrompts";

impl LoopContext<'_> {
    /// Registers the nominee as a version of the task's prompt, with the alias `challenger`.
    pub(super) fn register(&self, task: &Task, tree: &Tree, child: &str) -> Result<u32> {
        let node = tree.node(child)?;
        let mut parents = Vec::new();
        let mut parent = node.parent.as_deref();
        while let Some(id) = parent {
            parents.push(id.to_owned());
            parent = tree.node(id)?.parent.as_deref();
        }
        let packet = tree.packets.iter().find(|it| it.round == node.round);
        let feedback: Vec<&str> = packet
            .iter()
            .flat_map(|it| it.worst.iter().chain(&it.good))
            .map(assize_optimise::FeedbackCell::scenario)
            .collect();
        let nominee = Nominee {
            task: task.name.clone(),
            prompt: node.version.name.clone(),
            prompt_sha256: node.version.sha256.clone(),
            system: node.version.system.clone(),
            body: node.version.body.clone(),
            commit_message: node.hypothesis.clone(),
            origin: [
                ("experiment", self.experiment.to_owned()),
                ("version", node.id.clone()),
                ("parents", parents.join(",")),
                ("reflector", node.reflector.clone().unwrap_or_default()),
                ("feedback", feedback.join(",")),
            ]
            .map(|(key, value)| (key.to_owned(), value))
            .into(),
        };
        Ok(self.store.nominee_record(&nominee)?)
    }

    /// Brings the loop's run and the alias `challenger` up to date. A rejected nominee keeps its version
    /// and loses the alias.
    pub fn mirror(&self, task: &Task, log: &LoopLog<'_>) -> Result<()> {
        let tree = log.tree()?;
        let origin = format!("assize-optimise-{}", self.experiment);
        let run = ImportedRun {
            record: self.run_record(task, &tree, log, &origin)?,
            origin,
            end_time_ms: None,
            points: Vec::new(),
            datasets: Vec::new(),
        };
        let imported = self.store.runs_import(self.experiment, &[run])?;
        let Some(imported) = imported.into_iter().next() else {
            return Ok(());
        };
        let whole = self.store.run_get_whole(&imported.run_id)?;
        for (path, content) in files(&tree) {
            if !whole.files.iter().any(|(known, _)| *known == path) {
                self.store
                    .artifact_add(&imported.run_id, &path, content.into_bytes())?;
            }
        }
        let additions = self.additions(task, &tree, &whole)?;
        if !additions.is_empty() {
            self.store.run_add(&imported.run_id, &additions)?;
        }
        let nominee = tree.nominee.as_ref();
        let registered = nominee.and_then(|it| it.registered_version);
        if let (State::Rejected, Some(version)) = (tree.state(), registered) {
            self.store.nominee_withdraw(&task.name, version)?;
        }
        Ok(())
    }

    fn run_record(
        &self,
        task: &Task,
        tree: &Tree,
        log: &LoopLog<'_>,
        origin: &str,
    ) -> Result<CellRecord> {
        let champion = self.store.champion_get(&task.name)?;
        let seed = &tree.seed().version;
        let registered = champion.filter(|it| it.champion.prompt_sha256 == seed.sha256);
        let source = registered.map_or_else(
            || seed.name.clone(),
            |it| format!("prompts:/{}/{}", task.name, it.version),
        );
        let params = [
            ("optimizer", "assize optimise".to_owned()),
            ("num_prompts", "1".to_owned()),
            ("num_training_samples", tree.scenarios.len().to_string()),
            ("source_prompt_uri", source),
        ];
        Ok(CellRecord {
            cell_key: String::new(),
            name: format!("optimise {}", self.experiment),
            status: RunStatus::Running,
            start_time_ms: log.started_ms(),
            end_time_ms: log.started_ms(),
            params: params
                .into_iter()
                .map(|(key, value)| (key.into(), value.into()))
                .collect(),
            tags: vec![(tag::COPIED_FROM.into(), origin.into())],
            metrics: Vec::new(),
            artifacts: Vec::new(),
        })
    }

    fn additions(&self, task: &Task, tree: &Tree, whole: &WholeRun) -> Result<Additions> {
        let mut figures = Vec::new();
        if let Some(seed) = tree.seed().feedback() {
            figures.push((INITIAL, 0, seed.mean));
        }
        for round in &tree.rounds {
            let parent = tree.node(&round.parent)?.feedback();
            figures.extend(parent.map(|it| (BY_STEP, i64::from(round.round), it.mean)));
        }
        if let Some(mean) = self.final_score(task, tree)? {
            figures.push((FINAL, i64::from(tree.round), mean));
        }
        let now_ms = (self.clock)();
        let is_new = |key: &str, step: i64| {
            let mut points = whole.points.iter();
            points.all(|it| it.key != key || it.step != step)
        };
        let points = figures.into_iter().filter(|it| is_new(it.0, it.1));
        let version = tree.nominee.as_ref().and_then(|it| it.registered_version);
        let linked = version.map(|it| Entry {
            key: LINKED.to_owned(),
            value: json!([{"name": task.name, "version": it.to_string()}]).to_string(),
        });
        let is_linked = whole.run.tags.iter().any(|it| it.0 == LINKED);
        let is_running = whole.run.status == RunStatus::Running;
        Ok(Additions {
            tags: linked.into_iter().filter(|_| !is_linked).collect(),
            points: points
                .map(|(key, step, value)| Point {
                    key: key.to_owned(),
                    value,
                    timestamp: now_ms,
                    step,
                })
                .collect(),
            end: (tree.is_finished() && is_running).then_some((RunStatus::Finished, Some(now_ms))),
            ..Additions::default()
        })
    }

    /// The nominee's mean on the confirmation split, once everybody may see it.
    fn final_score(&self, task: &Task, tree: &Tree) -> Result<Option<f64>> {
        let is_decided = tree.is_finished() && tree.nominee.is_some();
        if !is_decided || !seal::is_open(self.store, self.experiment)? {
            return Ok(None);
        }
        let finalists = Finalists::of(tree)?;
        let Ok(cells) = self.final_cells(task, &finalists, Split::Confirmation) else {
            return Ok(None);
        };
        let tier = self.thresholds.deciding_tier();
        let own = cells.iter().filter(|it| {
            it.model == finalists.nominee.model && it.prompt == finalists.nominee.prompt
        });
        let means: Vec<f64> = own.filter_map(|it| it.mean(tier)).collect();
        Ok(assize_stats::describe::mean(&means))
    }
}

/// The files of every round that has ended.
fn files(tree: &Tree) -> BTreeMap<String, String> {
    let mut files = BTreeMap::new();
    for round in &tree.rounds {
        let folder = format!("prompt_candidates/iteration_{}", round.round);
        let children: Vec<&Node> = tree.children_of(round.round).collect();
        for child in &children {
            let path = format!("{folder}/{}.txt", child.version.name);
            files.insert(path, child.version.as_text());
        }
        let (results, scores) = evaluations(tree, round, &children);
        files.insert(format!("{folder}/eval_results.json"), results);
        files.insert(format!("{folder}/scores.json"), scores);
    }
    files
}

fn evaluations(tree: &Tree, round: &RoundEnded, children: &[&Node]) -> (String, String) {
    let cells: Vec<_> = children.iter().flat_map(|it| &it.scores).collect();
    let means: BTreeMap<&str, Option<f64>> = children
        .iter()
        .map(|it| (it.id.as_str(), it.feedback().map(|it| it.mean)))
        .collect();
    let parent = tree.node(&round.parent).ok();
    let parent = parent.and_then(Node::feedback).map(|it| it.mean);
    let scores = json!({"eval_score": parent, "leader": round.leader, "candidates": means});
    let pretty =
        |value: &serde_json::Value| serde_json::to_string_pretty(value).unwrap_or_default();
    (pretty(&json!(cells)), pretty(&scores))
}

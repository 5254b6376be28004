//! The queue of runs to be judged, and the progress of judging.
//!
//! Runs are found by their tags, params and artifacts only, so runs that other tools logged with
//! the same ones are judged, too. A run without the tag `auto_pending` is pending for the automatic
//! tier, because tools that know only one tier do not set the tag.

use std::collections::BTreeMap;

use assize_domain::hash::hex;
use assize_domain::judge::Tier;
use assize_domain::rubric::Rubric;
use assize_domain::run::{RunStatus, artifact};
use assize_domain::scenario::Split;
use assize_domain::verdict::{RubricRef, effective};
use rusqlite::Connection;
use rusqlite::types::ValueRef;

use super::EmbeddedStore;
use super::experiments::{count, experiment_need};
use super::reopen::{runs_recompute, runs_reopen};
use super::rows::{
    RunKey, artifact_text, candidates_read, entry, set_aside, status_number, verdicts_read,
};
use super::schema::known;
use crate::queue::{RecomputedRun, Reopening, RubricUse, TrackedPair};
use crate::rules::pair_number;
use crate::sqlite::Attempt;
use crate::{JudgingCounts, PendingQuery, PendingRun, Queue, Result};

/// The number of runs that are read at once. No connection is held between pages, so a judge that
/// takes hours does not block the cleanup of the write-ahead log.
const PAGE: usize = 64;

impl Queue for EmbeddedStore {
    fn pending_each(
        &self,
        experiment: &str,
        query: &PendingQuery,
        visit: &mut dyn FnMut(PendingRun) -> Result<()>,
    ) -> Result<()> {
        let experiment = self.read(|conn| experiment_need(conn, experiment))?;
        let mut after = 0;
        loop {
            let page = self.read(|conn| pending_page(conn, experiment, query, &mut after))?;
            if page.is_empty() {
                return Ok(());
            }
            page.into_iter().try_for_each(&mut *visit)?;
        }
    }

    fn judging_count(&self, experiment: &str) -> Result<JudgingCounts> {
        self.read(|conn| judging_count(conn, experiment))
    }

    fn rubric_list(&self, experiment: &str) -> Result<Vec<RubricUse>> {
        self.read(|conn| rubric_list(conn, experiment))
    }

    fn pair_list(&self, experiment: &str) -> Result<Vec<TrackedPair>> {
        self.read(|conn| pair_list(conn, experiment))
    }

    fn runs_reopen(&self, reopening: &Reopening) -> Result<u64> {
        let reopening = reopening.clone();
        self.writer
            .write(move |session| runs_reopen(session, &reopening))
    }

    fn runs_recompute(&self, runs: &[RecomputedRun], rubric: &Rubric) -> Result<u64> {
        let (runs, rubric) = (runs.to_vec(), rubric.clone());
        self.writer
            .write(move |session| runs_recompute(session, &runs, &rubric))
    }
}

/// The next pending runs of a tier after the run with this id; empty at the end.
pub(crate) fn pending_page(
    conn: &Connection,
    experiment: i64,
    query: &PendingQuery,
    after: &mut i64,
) -> Attempt<Vec<PendingRun>> {
    loop {
        let keys = waiting(conn, experiment, query.tier, *after)?;
        let Some(last) = keys.last() else {
            return Ok(Vec::new());
        };
        *after = last.id;
        let mut page = Vec::with_capacity(keys.len());
        for key in &keys {
            page.extend(pending_read(conn, key, query)?);
        }
        if !page.is_empty() {
            return Ok(page);
        }
    }
}

fn waiting(conn: &Connection, experiment: i64, tier: Tier, after: i64) -> Attempt<Vec<RunKey>> {
    let sql = match tier {
        Tier::Expert => format!(
            "SELECT r.id, r.run_id FROM tags t CROSS JOIN runs r ON r.id = t.run
             WHERE t.key = {key} AND t.value = {yes} AND t.key < {awaited_end}
               AND t.run > ?2 AND r.experiment = ?1 AND r.lifecycle_stage = 'active'
               AND r.status = {finished} ORDER BY t.run LIMIT {PAGE}",
            key = known::JUDGE_PENDING,
            awaited_end = known::AWAITED_END,
            yes = known::TRUE,
            finished = status_number(RunStatus::Finished),
        ),
        Tier::Auto => format!(
            "SELECT r.id, r.run_id FROM runs r
             JOIN tags t ON t.run = r.id AND t.key = {expert}
             LEFT JOIN tags a ON a.run = r.id AND a.key = {auto}
             WHERE r.experiment = ?1 AND r.id > ?2 AND r.lifecycle_stage = 'active'
               AND r.status = {finished} AND coalesce(a.value, {yes}) <> {no}
             ORDER BY r.id LIMIT {PAGE}",
            expert = known::JUDGE_PENDING,
            auto = known::AUTO_PENDING,
            yes = known::TRUE,
            no = known::FALSE,
            finished = status_number(RunStatus::Finished),
        ),
    };
    let mut list = conn.prepare_cached(&sql)?;
    let keys = list.query_map((experiment, after), |row| {
        Ok(RunKey {
            id: row.get(0)?,
            run_id: hex(&row.get::<_, [u8; 16]>(1)?),
        })
    })?;
    Ok(keys.collect::<rusqlite::Result<_>>()?)
}

/// The data of a run that a judge needs; `None` if there is nothing for this judge to score.
pub(crate) fn pending_read(
    conn: &Connection,
    run: &RunKey,
    query: &PendingQuery,
) -> Attempt<Option<PendingRun>> {
    let mut tags = JudgingTags::read(conn, run.id)?;
    let judge_kind = tags.take(known::JUDGE_KIND);
    if query
        .judge_kind
        .as_ref()
        .is_some_and(|wanted| *wanted != judge_kind)
    {
        return Ok(None);
    }
    let candidates = candidates_read(conn, run)?.unwrap_or_default();
    if candidates.iter().all(|candidate| candidate.text.is_none()) {
        return Ok(None);
    }
    let rubric = tags.rubric();
    let mut files = verdicts_read(conn, run)?;
    if !files.is_empty() {
        let aside = set_aside(conn, run.id)?;
        files.retain(|(_, file)| !aside.contains(&file.sitting));
    }
    let files: Vec<_> = files.into_iter().map(|(_, file)| file).collect();
    let judged = effective(&files, query.tier, &rubric.sha256)
        .into_keys()
        .collect();
    let context = artifact_text(conn, run, artifact::CONTEXT, known::ARTIFACT_CONTEXT)?;
    Ok(Some(PendingRun {
        run_id: run.run_id.clone(),
        scenario: entry(conn, "params", run.id, known::SCENARIO)?.unwrap_or_default(),
        split: entry(conn, "params", run.id, known::SPLIT)?
            .unwrap_or_else(|| Split::Selection.to_string()),
        pair: pair_number((
            entry(conn, "params", run.id, known::MODEL)?,
            entry(conn, "params", run.id, known::PROMPT)?,
            entry(conn, "tags", run.id, known::PROMPT_SHA256)?,
            entry(conn, "tags", run.id, known::MODEL_DIGEST)?,
        )),
        judge_kind,
        rubric,
        context: context.unwrap_or_else(|| "{}".to_owned()),
        candidates,
        judged,
    }))
}

fn rubric_of(conn: &Connection, run: i64) -> Attempt<RubricRef> {
    Ok(JudgingTags::read(conn, run)?.rubric())
}

/// The tags with adjacent keys that judging needs.
struct JudgingTags(Vec<(i64, String)>);

impl JudgingTags {
    fn read(conn: &Connection, run: i64) -> Attempt<Self> {
        let mut list = conn.prepare_cached(
            "SELECT key, CASE typeof(value) WHEN 'integer'
                    THEN (SELECT text FROM texts WHERE id = value) ELSE value END
             FROM tags WHERE run = ?1 AND key BETWEEN ?2 AND ?3",
        )?;
        let bounds = (run, known::JUDGE_KIND, known::RUBRIC_SHA256);
        let tags = list.query_map(bounds, |row| Ok((row.get(0)?, row.get(1)?)))?;
        Ok(Self(tags.collect::<rusqlite::Result<_>>()?))
    }

    fn take(&mut self, key: i64) -> String {
        let found = self.0.iter_mut().find(|(known, _)| *known == key);
        found
            .map(|it| std::mem::take(&mut it.1))
            .unwrap_or_default()
    }

    fn rubric(&mut self) -> RubricRef {
        RubricRef {
            id: self.take(known::RUBRIC),
            sha256: self.take(known::RUBRIC_SHA256),
        }
    }
}

/// The progress of judging in an experiment.
pub(crate) fn judging_count(conn: &Connection, experiment: &str) -> Attempt<JudgingCounts> {
    let experiment = experiment_need(conn, experiment)?;
    let sql = format!(
        "SELECT r.status, t.value = {yes}, coalesce(a.value, {yes}) <> {no},
                CASE typeof(k.value) WHEN 'integer'
                    THEN (SELECT text FROM texts WHERE id = k.value) ELSE k.value END,
                count(*), sum(coalesce(n.value, 0))
         FROM runs r
         JOIN tags t ON t.run = r.id AND t.key = {expert}
         LEFT JOIN tags a ON a.run = r.id AND a.key = {auto}
         LEFT JOIN tags k ON k.run = r.id AND k.key = {kind}
         LEFT JOIN latest_metrics n ON n.run = r.id AND n.key = {n_candidates}
         WHERE r.experiment = ?1 AND r.lifecycle_stage = 'active'
         GROUP BY 1, 2, 3, k.value",
        yes = known::TRUE,
        no = known::FALSE,
        expert = known::JUDGE_PENDING,
        auto = known::AUTO_PENDING,
        kind = known::JUDGE_KIND,
        n_candidates = known::N_CANDIDATES,
    );
    let mut counts = JudgingCounts::default();
    let mut by_kind: BTreeMap<String, u64> = BTreeMap::new();
    let mut list = conn.prepare_cached(&sql)?;
    let mut rows = list.query([experiment])?;
    while let Some(row) = rows.next()? {
        let status: i64 = row.get(0)?;
        let runs = count(row.get(4)?);
        if status == status_number(RunStatus::Failed) {
            counts.failed += runs;
        }
        if status != status_number(RunStatus::Finished) {
            continue;
        }
        counts.runs += runs;
        counts.candidates += whole(row.get(5)?);
        if row.get(1)? {
            counts.expert_pending += runs;
            let kind: Option<String> = row.get(3)?;
            *by_kind.entry(kind.unwrap_or_default()).or_default() += runs;
        } else {
            counts.expert_judged += runs;
        }
        if row.get(2)? {
            counts.auto_pending += runs;
        } else {
            counts.auto_judged += runs;
        }
    }
    counts.pending_by_kind = by_kind.into_iter().collect();
    Ok(counts)
}

/// The rubrics of finished runs, the one with the newest run last.
pub(crate) fn rubric_list(conn: &Connection, experiment: &str) -> Attempt<Vec<RubricUse>> {
    let experiment = experiment_need(conn, experiment)?;
    let sql = format!(
        "SELECT max(r.id), count(*), sum(t.value = {yes}), sum(coalesce(a.value, {yes}) <> {no})
         FROM runs r
         JOIN tags t ON t.run = r.id AND t.key = {expert}
         LEFT JOIN tags a ON a.run = r.id AND a.key = {auto}
         LEFT JOIN tags s ON s.run = r.id AND s.key = {sha256}
         LEFT JOIN tags i ON i.run = r.id AND i.key = {rubric}
         WHERE r.experiment = ?1 AND r.lifecycle_stage = 'active' AND r.status = {finished}
         GROUP BY s.value, i.value ORDER BY 1",
        yes = known::TRUE,
        no = known::FALSE,
        expert = known::JUDGE_PENDING,
        auto = known::AUTO_PENDING,
        sha256 = known::RUBRIC_SHA256,
        rubric = known::RUBRIC,
        finished = status_number(RunStatus::Finished),
    );
    let mut list = conn.prepare_cached(&sql)?;
    let mut rows = list.query([experiment])?;
    let mut uses = Vec::new();
    while let Some(row) = rows.next()? {
        let newest: i64 = row.get(0)?;
        let mut find = conn.prepare_cached("SELECT run_id FROM runs WHERE id = ?1")?;
        let run_id: [u8; 16] = find.query_row([newest], |row| row.get(0))?;
        uses.push(RubricUse {
            rubric: rubric_of(conn, newest)?,
            run_id: hex(&run_id),
            runs: count(row.get(1)?),
            expert_pending: count(row.get(2)?),
            auto_pending: count(row.get(3)?),
        });
    }
    Ok(uses)
}

/// The pairs of finished runs, by split and rubric.
pub(crate) fn pair_list(conn: &Connection, experiment: &str) -> Attempt<Vec<TrackedPair>> {
    let experiment = experiment_need(conn, experiment)?;
    let value = |table: &str, key: i64| {
        format!("(SELECT value FROM {table} WHERE run = r.id AND key = {key})")
    };
    let columns = [
        value("params", known::SPLIT),
        value("tags", known::RUBRIC_SHA256),
        value("params", known::MODEL),
        value("tags", known::MODEL_DIGEST),
        value("params", known::PROMPT),
        value("tags", known::PROMPT_SHA256),
    ];
    let sql = format!(
        "SELECT DISTINCT {} FROM runs r
         JOIN tags t ON t.run = r.id AND t.key = {expert}
         WHERE r.experiment = ?1 AND r.lifecycle_stage = 'active' AND r.status = {finished}",
        columns.join(", "),
        expert = known::JUDGE_PENDING,
        finished = status_number(RunStatus::Finished),
    );
    let mut list = conn.prepare_cached(&sql)?;
    let mut rows = list.query([experiment])?;
    let mut pairs = Vec::new();
    while let Some(row) = rows.next()? {
        let text = |column: usize| text_of(conn, row.get_ref(column)?);
        pairs.push(TrackedPair {
            split: text(0)?.unwrap_or_else(|| Split::Selection.to_string()),
            rubric_sha256: text(1)?.unwrap_or_default(),
            model: text(2)?.unwrap_or_default(),
            model_digest: text(3)?.unwrap_or_default(),
            prompt: text(4)?.unwrap_or_default(),
            prompt_sha256: text(5)?.unwrap_or_default(),
        });
    }
    Ok(pairs)
}

/// A value of a param or tag, which is a text or the id of one.
fn text_of(conn: &Connection, value: ValueRef<'_>) -> Attempt<Option<String>> {
    Ok(match value {
        ValueRef::Null => None,
        ValueRef::Integer(id) => {
            let mut find = conn.prepare_cached("SELECT text FROM texts WHERE id = ?1")?;
            Some(find.query_row([id], |row| row.get(0))?)
        }
        other => Some(other.as_str().map_err(rusqlite::Error::from)?.to_owned()),
    })
}

/// A sum of counts that were logged as metrics.
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "the cast saturates, and counts are small"
)]
fn whole(sum: f64) -> u64 {
    sum as u64
}

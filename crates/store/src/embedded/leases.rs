//! Leases: which sitting may score which run.
//!
//! Claiming is one transaction, so simultaneous requests of two judges are handled one after the
//! other. A lease is live while its sitting is open and has not expired. An expired lease is
//! overwritten by the next request, and its previous owner gets an error when it submits verdicts.

use std::collections::{BTreeMap, BTreeSet};

use assize_domain::hash::hex;
use assize_domain::judge::Tier;
use assize_domain::run::RunStatus;
use assize_domain::scenario::Split;
use assize_domain::sitting::{ANCHORS, Sitting, SittingState};
use assize_domain::verdict::VerdictFile;
use rusqlite::{Connection, Row};

use super::EmbeddedStore;
use super::commit::sitting_commit;
use super::experiments::{count, experiment_need};
use super::queue::{pair_list, pending_read};
use super::rows::{RunKey, run_find, status_number, verdicts_counting};
use super::schema::known;
use super::sittings::sitting_need;
use super::write_session::WriteSession;
use crate::queue::{HeldRun, LeaseRequest, Leased, VerdictSubmission};
use crate::rules::{self, Changed, PendingPlace, open_cases, pair_number};
use crate::sqlite::Attempt;
use crate::{Committed, Leases, PendingQuery, PendingRun, Result, StoreError};

impl Leases for EmbeddedStore {
    fn lease_take(&self, request: &LeaseRequest) -> Result<Leased> {
        let request = request.clone();
        self.writer
            .write(move |session| lease_take(session, &request))
    }

    fn lease_list(&self, sitting: &str) -> Result<Vec<HeldRun>> {
        self.read(|conn| lease_list(conn, sitting))
    }

    fn sitting_submit(&self, submission: &VerdictSubmission) -> Result<Committed> {
        let submission = submission.clone();
        self.writer
            .write(move |session| sitting_submit(session, &submission))
    }
}

/// Leases whole scenarios to a sitting.
pub(crate) fn lease_take(session: &WriteSession, request: &LeaseRequest) -> Attempt<Leased> {
    let conn = &session.conn;
    let sitting = open_sitting(conn, &request.sitting)?;
    leases_renew(conn, &request.sitting, request.until_ms)?;
    let handler = LeaseHandler {
        conn,
        sitting: &sitting,
        request,
    };
    let mut leased = Leased::default();
    let mut cases = 0;
    let waiting = handler.waiting()?;
    let count_pairs = || {
        let pairs = pair_list(conn, &sitting.experiment)?;
        Attempt::Ok(rules::pair_counts(&pairs, &sitting.rubric.sha256))
    };
    for runs in rules::by_scenario(waiting, count_pairs)? {
        if handler.is_taken(&runs)? {
            continue;
        }
        // Reading the runs is slow. Once enough cases are found, the rest is counted
        // from the list.
        if cases >= request.cases && sitting.copies <= 1 {
            for run in &runs {
                if !is_held(conn, &run.key, &sitting)? {
                    leased.left += run.candidates;
                }
            }
            continue;
        }
        for run in &runs {
            let Some(pending) = handler.load(&run.key)? else {
                continue;
            };
            let open = open_cases(&pending);
            if cases >= request.cases {
                leased.left += open as u64;
                continue;
            }
            handler.claim(&run.key)?;
            leased.runs.push(pending);
        }
        cases = leased.runs.iter().map(open_cases).sum();
    }
    Ok(leased)
}

/// The runs that a sitting holds, with its verdicts so far.
pub(crate) fn lease_list(conn: &Connection, sitting: &str) -> Attempt<Vec<HeldRun>> {
    let sitting = sitting_need(conn, sitting)?.sitting;
    let mut held = Vec::new();
    for key in runs_of(conn, &sitting.id)? {
        let files = verdicts_counting(conn, &key)?;
        let Some(run) = pending_for(conn, &key, &sitting, &files, &[])? else {
            continue;
        };
        let own = files.into_iter().filter(|file| file.sitting == sitting.id);
        // Later parts replace earlier ones.
        let own: BTreeMap<u32, _> = own
            .flat_map(|file| file.verdicts)
            .map(|verdict| (verdict.candidate, verdict))
            .collect();
        let own = own.into_values().collect();
        held.push(HeldRun { run, own });
    }
    Ok(held)
}

/// Commits verdicts of a sitting that still holds the leases on their runs.
pub(crate) fn sitting_submit(
    session: &mut WriteSession,
    submission: &VerdictSubmission,
) -> Attempt<Committed> {
    let sitting = open_sitting(&session.conn, &submission.sitting)?;
    let mut lost = Vec::new();
    for (run_id, _) in submission
        .files
        .iter()
        .filter(|(run_id, _)| run_id != ANCHORS)
    {
        let run = run_find(&session.conn, run_id)?;
        if !is_held(&session.conn, &run, &sitting)? {
            lost.push(run_id.clone());
        }
    }
    if !lost.is_empty() {
        return Err(StoreError::LeaseLost {
            sitting: sitting.id,
            run_ids: lost,
        }
        .into());
    }
    leases_renew(&session.conn, &submission.sitting, submission.until_ms)?;
    sitting_commit(
        session,
        &submission.files,
        &submission.rubric,
        Changed::Revise,
    )
}

/// The active runs whose lease a sitting holds, in the order of their creation.
pub(crate) fn runs_of(conn: &Connection, sitting: &str) -> Attempt<Vec<RunKey>> {
    let mut list = conn.prepare_cached(
        "SELECT DISTINCT r.id, r.run_id FROM leases l JOIN runs r ON r.id = l.run
         WHERE l.sitting = ?1 AND r.lifecycle_stage = 'active' ORDER BY r.id",
    )?;
    let keys = list.query_map([sitting], |row| {
        Ok(RunKey {
            id: row.get(0)?,
            run_id: hex(&row.get::<_, [u8; 16]>(1)?),
        })
    })?;
    Ok(keys.collect::<rusqlite::Result<_>>()?)
}

fn open_sitting(conn: &Connection, id: &str) -> Attempt<Sitting> {
    let record = sitting_need(conn, id)?;
    if record.state != SittingState::Open {
        let message = format!("sitting {id} is {}: open a new one", record.state);
        return Err(StoreError::Conflict(message).into());
    }
    Ok(record.sitting)
}

fn leases_renew(conn: &Connection, sitting: &str, until_ms: i64) -> Attempt<()> {
    conn.prepare_cached("UPDATE sittings SET lives_until = max(lives_until, ?2) WHERE id = ?1")?
        .execute((sitting, until_ms))?;
    Ok(())
}

fn is_held(conn: &Connection, run: &RunKey, sitting: &Sitting) -> Attempt<bool> {
    let mut find =
        conn.prepare_cached("SELECT 1 FROM leases WHERE run = ?1 AND tier = ?2 AND sitting = ?3")?;
    Ok(find.exists((run.id, sitting.tier.as_str(), &sitting.id))?)
}

/// A run that may be pending.
struct Waiting {
    key: RunKey,
    scenario: String,
    candidates: u64,
    split: String,
    pair: Option<u64>,
}

impl PendingPlace for Waiting {
    fn scenario(&self) -> &str {
        &self.scenario
    }

    fn split(&self) -> &str {
        &self.split
    }

    fn pair(&self) -> Option<u64> {
        self.pair
    }
}

/// One request for cases, inside its transaction.
struct LeaseHandler<'a> {
    conn: &'a Connection,
    sitting: &'a Sitting,
    request: &'a LeaseRequest,
}

impl LeaseHandler<'_> {
    /// Runs that this tier may have to judge, in the order of their creation. If several judges are
    /// to score a case, a run that one has judged may be pending for another.
    fn waiting(&self) -> Attempt<Vec<Waiting>> {
        let experiment = experiment_need(self.conn, &self.sitting.experiment)?;
        let (yes, no) = (known::TRUE, known::FALSE);
        let awaited = match (self.sitting.copies, self.sitting.tier) {
            (0 | 1, Tier::Expert) => format!("t.value = {yes}"),
            (0 | 1, Tier::Auto) => format!("coalesce(a.value, {yes}) <> {no}"),
            _ => "1".to_owned(),
        };
        let text = |table: &str, key: i64| {
            format!(
                "(SELECT CASE typeof(value) WHEN 'integer'
                     THEN (SELECT text FROM texts WHERE id = value) ELSE value END
                  FROM {table} WHERE run = r.id AND key = {key})"
            )
        };
        // A request that only counts needs no order.
        let order = if self.request.cases > 0 {
            [
                text("params", known::SPLIT),
                text("tags", known::RUBRIC_SHA256),
                text("tags", known::JUDGE_KIND),
                text("params", known::MODEL),
                text("params", known::PROMPT),
                text("tags", known::PROMPT_SHA256),
                text("tags", known::MODEL_DIGEST),
            ]
            .join(", ")
        } else {
            ["NULL"; 7].join(", ")
        };
        let sql = format!(
            "SELECT r.id, r.run_id,
                    CASE typeof(s.value) WHEN 'integer'
                        THEN (SELECT text FROM texts WHERE id = s.value) ELSE s.value END,
                    CAST(coalesce(n.value, 1) AS INTEGER), {order}
             FROM runs r
             JOIN tags t ON t.run = r.id AND t.key = {expert}
             LEFT JOIN tags a ON a.run = r.id AND a.key = {auto}
             LEFT JOIN params s ON s.run = r.id AND s.key = {scenario}
             LEFT JOIN latest_metrics n ON n.run = r.id AND n.key = {n_candidates}
             WHERE r.experiment = ?1 AND r.lifecycle_stage = 'active'
               AND r.status = {finished} AND {awaited} ORDER BY r.id",
            expert = known::JUDGE_PENDING,
            auto = known::AUTO_PENDING,
            scenario = known::SCENARIO,
            n_candidates = known::N_CANDIDATES,
            finished = status_number(RunStatus::Finished),
        );
        let mut list = self.conn.prepare_cached(&sql)?;
        let runs = list.query_map([experiment], |row| {
            Ok(Waiting {
                key: RunKey {
                    id: row.get(0)?,
                    run_id: hex(&row.get::<_, [u8; 16]>(1)?),
                },
                scenario: row.get::<_, Option<String>>(2)?.unwrap_or_default(),
                candidates: count(row.get(3)?),
                split: row
                    .get::<_, Option<String>>(4)?
                    .unwrap_or_else(|| Split::Selection.to_string()),
                pair: self.pair_of(row)?,
            })
        })?;
        Ok(runs.collect::<rusqlite::Result<_>>()?)
    }

    /// The pair of a waiting run, if the run is for this sitting.
    fn pair_of(&self, row: &Row<'_>) -> rusqlite::Result<Option<u64>> {
        let text = |column: usize| row.get::<_, Option<String>>(column);
        let is_under = text(5)?.is_none_or(|it| it == self.sitting.rubric.sha256);
        let wanted = self.request.judge_kind.as_ref();
        let kind = text(6)?;
        let is_for_kind = wanted.is_none_or(|it| kind.as_ref() == Some(it));
        let pair = (text(7)?, text(8)?, text(9)?, text(10)?);
        Ok((is_under && is_for_kind).then(|| pair_number(pair)))
    }

    /// Whether the scenario is already leased to as many other live sittings as are to score it.
    fn is_taken(&self, runs: &[Waiting]) -> Attempt<bool> {
        let mut holders = BTreeSet::new();
        for run in runs {
            holders.extend(self.others(&run.key)?);
        }
        Ok(holders.len() >= self.sitting.copies.max(1) as usize)
    }

    /// Other live sittings that hold a lease on a run.
    fn others(&self, run: &RunKey) -> Attempt<Vec<String>> {
        let mut list = self.conn.prepare_cached(
            "SELECT l.sitting FROM leases l JOIN sittings s ON s.id = l.sitting
             WHERE l.run = ?1 AND l.tier = ?2 AND l.sitting <> ?3
               AND s.state = 'open' AND s.lives_until > ?4",
        )?;
        let tier = self.sitting.tier.as_str();
        let now_ms = self.request.now_ms;
        let found = list.query_map((run.id, tier, &self.sitting.id, now_ms), |row| row.get(0))?;
        Ok(found.collect::<rusqlite::Result<_>>()?)
    }

    /// The run as this judge would get it; `None` if it has no new case for the judge.
    fn load(&self, run: &RunKey) -> Attempt<Option<PendingRun>> {
        if is_held(self.conn, run, self.sitting)? {
            return Ok(None);
        }
        let files = verdicts_counting(self.conn, run)?;
        let others = self.others(run)?;
        let pending = pending_for(self.conn, run, self.sitting, &files, &others)?;
        Ok(pending.filter(|pending| {
            let kind = &self.request.judge_kind;
            let matches_kind = kind.as_ref().is_none_or(|kind| *kind == pending.judge_kind);
            matches_kind && open_cases(pending) > 0
        }))
    }

    /// Takes the first slot that no other live sitting holds.
    fn claim(&self, run: &RunKey) -> Attempt<()> {
        let others = self.others(run)?;
        let tier = self.sitting.tier.as_str();
        let mut holder = self.conn.prepare_cached(
            "SELECT sitting FROM leases WHERE run = ?1 AND tier = ?2 AND slot = ?3",
        )?;
        for slot in 0..self.sitting.copies.max(1) {
            let mut rows = holder.query((run.id, tier, slot))?;
            let taken = match rows.next()? {
                Some(row) => others.contains(&row.get(0)?),
                None => false,
            };
            if taken {
                continue;
            }
            self.conn
                .prepare_cached(
                    "INSERT INTO leases (run, tier, slot, epoch, sitting) VALUES (?1, ?2, ?3, 1, ?4)
                     ON CONFLICT (run, tier, slot) DO UPDATE
                     SET sitting = excluded.sitting, epoch = epoch + 1",
                )?
                .execute((run.id, tier, slot, &self.sitting.id))?;
            break;
        }
        Ok(())
    }
}

/// The cases of the run that this sitting may score.
fn pending_for(
    conn: &Connection,
    run: &RunKey,
    sitting: &Sitting,
    files: &[VerdictFile],
    others: &[String],
) -> Attempt<Option<PendingRun>> {
    let query = PendingQuery {
        tier: sitting.tier,
        judge_kind: None,
    };
    let pending = pending_read(conn, run, &query)?;
    Ok(pending.and_then(|pending| rules::pending_for(pending, sitting, files, others)))
}

//! Importing runs and sittings of another store in one transaction: [`plan`](crate::import::plan)
//! decides what is written, this module writes it.

use assize_domain::hash::hex;
use assize_domain::run::{CellRecord, artifact, tag};
use rusqlite::{Connection, OptionalExtension};

use super::cells::{self, Prepared, RunRow};
use super::commit::{anchors_keep, file_keep, tag_keep};
use super::copying;
use super::experiments::experiment_touch;
use super::rows::{RunKey, artifact_get_bytes, artifact_text, set_aside, verdicts_read};
use super::schema::known;
use super::set_aside::aside_keep;
use super::sittings::{sitting_close, sitting_open, sitting_record_get};
use super::write_session::{WriteSession, lookup, text_find};
use crate::import::plan::{ExistingRun, RunMerge, RunPlan, SittingPlan};
use crate::queue::SittingRecord;
use crate::sqlite::Attempt;
use crate::{Imported, ImportedRun};

/// An imported run, prepared for the writer.
pub(crate) struct Incoming {
    run: ImportedRun,
    cell: Prepared,
}

/// Hashes shared content, and sorts the parts of each sitting's verdicts.
pub(crate) fn prepare(runs: &[ImportedRun]) -> Vec<Incoming> {
    let mut records: Vec<CellRecord> = runs.iter().map(|run| run.record.clone()).collect();
    for (record, run) in records.iter_mut().zip(runs) {
        let order: Vec<&str> = run.verdict_files().iter().map(|(path, _)| *path).collect();
        let place = |path: &str| order.iter().position(|known| *known == path);
        record.artifacts.sort_by_key(|(path, _)| place(path));
    }
    runs.iter()
        .cloned()
        .zip(cells::prepare(&records))
        .map(|(run, cell)| Incoming { run, cell })
        .collect()
}

/// Imports these runs, all or none.
pub(crate) fn runs_import(
    session: &mut WriteSession,
    experiment: &str,
    runs: &[Incoming],
) -> Attempt<Vec<Imported>> {
    let experiment = experiment_touch(session, experiment)?;
    let imported = runs
        .iter()
        .map(|incoming| run_import(session, experiment, incoming));
    imported.collect()
}

fn run_import(
    session: &mut WriteSession,
    experiment: i64,
    incoming: &Incoming,
) -> Attempt<Imported> {
    let Incoming { run: theirs, cell } = incoming;
    let found = find(&session.conn, experiment, incoming)?;
    let existing = found.as_ref().map(|it| existing_run(&session.conn, it));
    let plan = RunPlan::new(existing.transpose()?.as_ref(), theirs)?;
    let run_id = match (&plan, found) {
        (RunPlan::Unchanged | RunPlan::Differs, Some(found)) => hex(&found.run_id),
        (RunPlan::Merge(merge), Some(found)) => {
            let run = found.key();
            merge_carry_out(session, &run, merge)?;
            run.run_id
        }
        (RunPlan::Replace, Some(found)) => {
            cells::replace(session, found.id, cell)?;
            let run_id = hex(&found.run_id);
            copying::run_complete(session, &run_id, theirs)?;
            run_id
        }
        _ => {
            let run_id = hex(&cells::create(session, experiment, cell)?);
            copying::run_complete(session, &run_id, theirs)?;
            run_id
        }
    };
    Ok(Imported {
        run_id,
        change: plan.change(),
    })
}

/// The existing data of a run, as input for the plan.
fn existing_run(conn: &Connection, found: &RunRow) -> Attempt<ExistingRun> {
    let run = found.key();
    Ok(ExistingRun {
        status: found.status,
        set_aside: set_aside(conn, run.id)?,
        verdict_files: verdicts_read(conn, &run)?,
        reserved_paths: Vec::new(),
        candidates: artifact_get_bytes(conn, &run, known::ARTIFACT_CANDIDATES)?,
        run_id: run.run_id,
    })
}

/// Imports the record of a sitting; returns whether anything changed.
pub(crate) fn sitting_import(session: &mut WriteSession, theirs: &SittingRecord) -> Attempt<bool> {
    let id = &theirs.sitting.id;
    let ours = sitting_record_get(&session.conn, id)?;
    let plan = SittingPlan::new(ours.as_ref(), theirs);
    if plan.is_new {
        sitting_open(session, &theirs.sitting)?;
    }
    let first = ours.map_or(0, |it| it.anchor_files.len());
    for (part, file) in (first..).zip(&plan.anchor_files) {
        anchors_keep(session, i64::try_from(part).unwrap_or(i64::MAX), file)?;
    }
    if let Some(closing) = &plan.closing {
        sitting_close(session, id, closing)?;
    }
    Ok(!plan.is_empty())
}

fn find(conn: &Connection, experiment: i64, incoming: &Incoming) -> Attempt<Option<RunRow>> {
    let cell_key = &incoming.cell.record.cell_key;
    if !cell_key.is_empty() {
        return cells::find(conn, experiment, cell_key);
    }
    let mut by_id = conn.prepare_cached(
        "SELECT id, run_id, status FROM runs
         WHERE run_id = unhex(?2) AND experiment = ?1 AND lifecycle_stage = 'active'",
    )?;
    let itself = by_id.query_row((experiment, &incoming.run.origin), RunRow::read);
    if let Some(found) = itself.optional()? {
        return Ok(Some(found));
    }
    let Some(key) = text_find(conn, tag::COPIED_FROM)? else {
        return Ok(None);
    };
    let Some(origin) = lookup(conn, key, &incoming.run.origin)? else {
        return Ok(None);
    };
    let mut by_tag = conn.prepare_cached(
        "SELECT r.id, r.run_id, r.status FROM runs r JOIN tags t ON t.run = r.id AND t.key = ?2
         WHERE r.experiment = ?1 AND r.lifecycle_stage = 'active' AND r.cell_key IS NULL
             AND t.value = ?3",
    )?;
    let copy = by_tag.query_row((experiment, key, origin), RunRow::read);
    Ok(copy.optional()?)
}

/// Adds the missing verdict files and sets sittings aside.
fn merge_carry_out(session: &mut WriteSession, run: &RunKey, merge: &RunMerge) -> Attempt<()> {
    for (path, file) in &merge.verdict_files {
        file_keep(session, run, path, file)?;
    }
    derive(session, run, &merge.set_aside)
}

/// Updates the run's metrics and tags; a run without a rubric has none to update.
fn derive(session: &mut WriteSession, run: &RunKey, aside: &[String]) -> Attempt<()> {
    let path = artifact::RUBRIC;
    let number = text_find(&session.conn, path)?.unwrap_or_default();
    if artifact_text(&session.conn, run, path, number)?.is_some() {
        return aside_keep(session, run, aside);
    }
    if aside.is_empty() {
        return Ok(());
    }
    tag_keep(session, run.id, tag::SET_ASIDE, &aside.join(" "))
}

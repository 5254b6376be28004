//! Taking in runs of another store.
//!
//! A run that is not here is written as it is there. A run that is here gets what it lacks and
//! loses nothing: verdict files are immutable and named by sitting, so both sides' files add
//! up, and a sitting that is set aside on either side is set aside. Importing the same runs
//! again therefore changes nothing. So it is with sittings.

use assize_domain::candidate::Candidate;
use assize_domain::hash::hex;
use assize_domain::run::{CellRecord, RunStatus, artifact, tag};
use assize_domain::sitting::SittingState;
use assize_domain::verdict::VerdictFile;
use rusqlite::{Connection, OptionalExtension};

use super::cells::{self, Found, Prepared};
use super::commit::{anchors_keep, file_keep, tag_keep};
use super::copying;
use super::experiments::experiment_touch;
use super::rows::{RunKey, artifact_text, candidates_read, corrupt, set_aside, verdicts_read};
use super::set_aside::aside_keep;
use super::sittings::{sitting_close, sitting_open, sitting_record};
use super::write_session::{WriteSession, lookup, text_find};
use crate::queue::{Closing, SittingRecord};
use crate::rules::free_path;
use crate::sqlite::Attempt;
use crate::{Change, Imported, ImportedRun};

/// A run on its way to the writer.
pub(crate) struct Incoming {
    run: ImportedRun,
    cell: Prepared,
}

/// Hashes what runs share, and puts the parts of each sitting's verdicts in order.
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

/// Takes these runs in, all or none.
pub(crate) fn runs_import(
    session: &mut WriteSession,
    experiment: &str,
    runs: &[Incoming],
) -> Attempt<Vec<Imported>> {
    let experiment = experiment_touch(session, experiment)?;
    let imported = runs.iter().map(|incoming| {
        let cell = &incoming.cell;
        let (run_id, change) = match find(&session.conn, experiment, incoming)? {
            None => {
                let run_id = cells::create(session, experiment, cell)?;
                copying::run_complete(session, &hex(&run_id), &incoming.run)?;
                (run_id, Change::Created)
            }
            // Only a cell is generated again, so that what failed is worth nothing.
            Some(found)
                if found.failed
                    && cell.record.status != RunStatus::Failed
                    && !cell.record.cell_key.is_empty() =>
            {
                cells::replace(session, found.id, cell)?;
                copying::run_complete(session, &hex(&found.run_id), &incoming.run)?;
                (found.run_id, Change::Created)
            }
            Some(found) => (found.run_id, merge(session, &found, &incoming.run)?),
        };
        Ok(Imported {
            run_id: hex(&run_id),
            change,
        })
    });
    imported.collect()
}

/// Takes the record of a sitting in; answers whether anything changed.
pub(crate) fn sitting_import(session: &mut WriteSession, theirs: &SittingRecord) -> Attempt<bool> {
    let id = &theirs.sitting.id;
    let quarantined = theirs.state == SittingState::Quarantined;
    let Some(ours) = sitting_record(&session.conn, id)? else {
        sitting_open(session, &theirs.sitting)?;
        anchors_add(session, &[], theirs)?;
        sitting_close(session, id, &closing(theirs, quarantined))?;
        return Ok(true);
    };
    let added = anchors_add(session, &ours.anchor_files, theirs)?;
    let newly = quarantined && ours.state != SittingState::Quarantined;
    if newly {
        sitting_close(session, id, &closing(theirs, true))?;
    }
    Ok(added || newly)
}

fn closing(theirs: &SittingRecord, quarantined: bool) -> Closing {
    let opened_at = &theirs.sitting.opened_at;
    Closing {
        state: if quarantined {
            SittingState::Quarantined
        } else {
            SittingState::Closed
        },
        at: theirs.closed_at.as_ref().unwrap_or(opened_at).clone(),
        judge: theirs.judge.clone(),
        drift: theirs.drift.clone(),
    }
}

/// Adds verdicts on a sitting's anchors that are not among these.
fn anchors_add(
    session: &WriteSession,
    kept: &[VerdictFile],
    theirs: &SittingRecord,
) -> Attempt<bool> {
    let lacking = theirs.anchor_files.iter().filter(|it| !kept.contains(it));
    let mut part = i64::try_from(kept.len()).unwrap_or(i64::MAX);
    for file in lacking {
        anchors_keep(session, part, file)?;
        part += 1;
    }
    Ok(part > i64::try_from(kept.len()).unwrap_or(i64::MAX))
}

fn find(conn: &Connection, experiment: i64, incoming: &Incoming) -> Attempt<Option<Found>> {
    let cell_key = &incoming.cell.record.cell_key;
    if !cell_key.is_empty() {
        return cells::find(conn, experiment, cell_key);
    }
    let mut by_id = conn.prepare_cached(
        "SELECT id, run_id, status FROM runs
         WHERE run_id = unhex(?2) AND experiment = ?1 AND lifecycle_stage = 'active'",
    )?;
    let itself = by_id.query_row((experiment, &incoming.run.origin), Found::read);
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
    let copy = by_tag.query_row((experiment, key, origin), Found::read);
    Ok(copy.optional()?)
}

/// Adds to a run what it lacks.
fn merge(session: &mut WriteSession, found: &Found, theirs: &ImportedRun) -> Attempt<Change> {
    let run = RunKey {
        id: found.id,
        run_id: hex(&found.run_id),
    };
    let mut aside = set_aside(&session.conn, run.id)?;
    let known_aside = aside.len();
    for sitting in theirs.set_aside() {
        if !aside.iter().any(|known| known == sitting) {
            aside.push(sitting.to_owned());
        }
    }
    let files = verdict_files(&run, theirs)?;
    if files.is_empty() && aside.len() == known_aside {
        return Ok(Change::Unchanged);
    }
    let kept = verdicts_read(&session.conn, &run)?;
    let lacking: Vec<&(String, VerdictFile)> = files
        .iter()
        .filter(|(_, file)| !kept.iter().any(|(_, known)| known == file))
        .collect();
    if lacking.is_empty() && aside.len() == known_aside {
        return Ok(Change::Unchanged);
    }
    if !same_candidates(&session.conn, &run, &theirs.record)? {
        return Ok(Change::Differs);
    }
    let mut taken: Vec<String> = kept.into_iter().map(|(path, _)| path).collect();
    for (path, file) in lacking {
        let path = if taken.contains(path) {
            free_path(|path| taken.iter().any(|it| it == path), &file.sitting)
        } else {
            path.clone()
        };
        file_keep(session, &run, &path, file)?;
        taken.push(path);
    }
    derive(session, &run, &aside)?;
    Ok(Change::Merged)
}

/// Brings the run's metrics and tags up to date; a run without a rubric has none of them.
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

/// The verdict files that come with a run, with their paths.
fn verdict_files(run: &RunKey, theirs: &ImportedRun) -> Attempt<Vec<(String, VerdictFile)>> {
    let files = theirs.verdict_files().into_iter();
    files
        .map(|(path, content)| {
            let file = serde_json::from_str(content).map_err(|error| corrupt(run, path, &error))?;
            Ok((path.to_owned(), file))
        })
        .collect()
}

/// Whether what was said about one run's candidates is true of the other's.
fn same_candidates(conn: &Connection, run: &RunKey, theirs: &CellRecord) -> Attempt<bool> {
    let path = artifact::CANDIDATES;
    let content = theirs.artifacts.iter().find(|(known, _)| known == path);
    let theirs: Vec<Candidate> = match content {
        Some((_, content)) => {
            serde_json::from_str(content).map_err(|error| corrupt(run, path, &error))?
        }
        None => Vec::new(),
    };
    let ours = candidates_read(conn, run)?.unwrap_or_default();
    let texts = |list: &[Candidate]| -> Vec<(u32, Option<String>)> {
        list.iter().map(|it| (it.index, it.text.clone())).collect()
    };
    Ok(texts(&ours) == texts(&theirs))
}

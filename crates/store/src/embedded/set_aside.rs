//! Setting verdicts aside: they are kept but do not count.
//!
//! A tag of a run lists the sittings that do not count for it, so the run alone tells every reader.
//! When the list changes, the run's metrics and tags are derived again. A metric without remaining
//! verdicts becomes NaN, because a tracking server can append to a metric but not delete it.

use assize_domain::rubric::Rubric;
use assize_domain::run::{artifact, tag};
use assize_domain::sitting::Sitting;

use super::commit::{experiment_changed, summary_keep, tag_keep, tags_known};
use super::rows::{
    RunKey, artifact_text, candidates_read, corrupt, run_find, set_aside, verdicts_counting,
    verdicts_read,
};
use super::write_session::{WriteSession, text_find};
use crate::StoreError;
use crate::rules::{derive_again, judgeable};
use crate::sqlite::{Attempt, Fault};

/// Sets aside the verdicts of this sitting on all runs.
pub(crate) fn set_aside_add(session: &mut WriteSession, sitting: &Sitting) -> Attempt<()> {
    for run in judged_runs(session, sitting)? {
        let mut aside = set_aside(&session.conn, run.id)?;
        if !aside.contains(&sitting.id) {
            aside.push(sitting.id.clone());
            aside_keep(session, &run, &aside)?;
        }
    }
    Ok(())
}

/// Makes the verdicts of this sitting count again.
pub(crate) fn set_aside_remove(session: &mut WriteSession, sitting: &Sitting) -> Attempt<()> {
    for run in judged_runs(session, sitting)? {
        let mut aside = set_aside(&session.conn, run.id)?;
        aside.retain(|id| *id != sitting.id);
        aside_keep(session, &run, &aside)?;
    }
    Ok(())
}

/// The existing runs that a sitting has judged.
fn judged_runs(session: &WriteSession, sitting: &Sitting) -> Attempt<Vec<RunKey>> {
    let mut runs: Vec<RunKey> = Vec::new();
    for (run_id, _) in &sitting.runs {
        match run_find(&session.conn, run_id) {
            Ok(run) => runs.push(run),
            Err(Fault::Store(StoreError::NoRun { .. })) => {}
            Err(fault) => return Err(fault),
        }
    }
    runs.extend(super::leases::runs_of(&session.conn, &sitting.id)?);
    let mut judged = Vec::new();
    for run in runs {
        let files = verdicts_read(&session.conn, &run)?;
        if files.iter().any(|(_, file)| file.sitting == sitting.id) {
            judged.push(run);
        }
    }
    Ok(judged)
}

/// Writes the list and derives the run's metrics and tags again.
pub(crate) fn aside_keep(
    session: &mut WriteSession,
    run: &RunKey,
    aside: &[String],
) -> Attempt<()> {
    let path = artifact::RUBRIC;
    let number = text_find(&session.conn, path)?.unwrap_or_default();
    let text = artifact_text(&session.conn, run, path, number)?.unwrap_or_default();
    let rubric = Rubric::parse(path, &text).map_err(|problems| {
        let first = problems
            .first()
            .map(ToString::to_string)
            .unwrap_or_default();
        corrupt(run, path, &first)
    })?;
    let candidates = candidates_read(&session.conn, run)?.unwrap_or_default();
    // The list determines what counts, so it is written first.
    if aside.is_empty() {
        tag_drop(session, run.id, tag::SET_ASIDE)?;
    } else {
        tag_keep(session, run.id, tag::SET_ASIDE, &aside.join(" "))?;
    }
    let files = verdicts_counting(&session.conn, run)?;
    let has_metric =
        |name: &str| has_metric(session, run.id, name).map_err(|fault| fault.at(&session.path));
    let (summary, gone) = derive_again(&files, &rubric, judgeable(&candidates).len(), has_metric)?;
    for name in gone {
        tag_drop(session, run.id, name)?;
    }
    let tags = tags_known(&session.conn, run.id)?;
    summary_keep(session, run.id, &summary, &tags)?;
    experiment_changed(session, run.id)
}

fn has_metric(session: &WriteSession, run: i64, name: &str) -> Attempt<bool> {
    let Some(key) = text_find(&session.conn, name)? else {
        return Ok(false);
    };
    let mut find = session
        .conn
        .prepare_cached("SELECT 1 FROM latest_metrics WHERE run = ?1 AND key = ?2")?;
    Ok(find.exists((run, key))?)
}

fn tag_drop(session: &WriteSession, run: i64, name: &str) -> Attempt<()> {
    let Some(key) = text_find(&session.conn, name)? else {
        return Ok(());
    };
    session
        .conn
        .prepare_cached("DELETE FROM tags WHERE run = ?1 AND key = ?2")?
        .execute((run, key))?;
    Ok(())
}

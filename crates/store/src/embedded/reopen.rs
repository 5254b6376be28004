//! Making runs pending again, for example under a new rubric.

use assize_domain::hash::hex;
use assize_domain::rubric::Rubric;
use assize_domain::run::{artifact, tag};
use rusqlite::OptionalExtension as _;
use sha2::{Digest, Sha256};

use super::board::row_write;
use super::commit::{experiment_changed, file_commit, tag_keep};
use super::rows::{RunKey, entry, run_find, set_aside, verdicts_counting};
use super::schema::known;
use super::set_aside::aside_keep;
use super::write_session::WriteSession;
use crate::queue::{RecomputedRun, Reopening};
use crate::rules::Changed;
use crate::sqlite::Attempt;

/// Makes runs pending again; returns how many were changed.
pub(crate) fn runs_reopen(session: &mut WriteSession, reopening: &Reopening) -> Attempt<u64> {
    let mut reopened = 0;
    for run_id in &reopening.run_ids {
        let run = run_find(&session.conn, run_id)?;
        let mut aside = set_aside(&session.conn, run.id)?;
        if let Some(rubric) = &reopening.rubric {
            let current = entry(&session.conn, "tags", run.id, known::RUBRIC_SHA256)?;
            if current.as_deref() == Some(rubric.sha256.as_str()) {
                continue;
            }
            rubric_change(session, &run, rubric)?;
        } else {
            let before = aside.len();
            for file in verdicts_counting(&session.conn, &run)? {
                if reopening.tiers.contains(&file.tier) && !aside.contains(&file.sitting) {
                    aside.push(file.sitting);
                }
            }
            if aside.len() == before {
                continue;
            }
        }
        aside_keep(session, &run, &aside)?;
        // A sitting that holds the run would judge its previous state.
        session
            .conn
            .prepare_cached("DELETE FROM leases WHERE run = ?1")?
            .execute([run.id])?;
        reopened += 1;
    }
    Ok(reopened)
}

/// Puts runs under a rubric and stores what was computed about them; returns how many were changed.
pub(crate) fn runs_recompute(
    session: &mut WriteSession,
    runs: &[RecomputedRun],
    rubric: &Rubric,
) -> Attempt<u64> {
    let mut changed = 0;
    for it in runs {
        let reopening = Reopening {
            run_ids: vec![it.run_id.clone()],
            rubric: Some(rubric.clone()),
            tiers: Vec::new(),
        };
        let is_moved = runs_reopen(session, &reopening)? > 0;
        let run = run_find(&session.conn, &it.run_id)?;
        if let Some(content) = &it.candidates {
            candidates_replace(session, &run, content)?;
        }
        let is_judged = match &it.verdicts {
            Some(file) => file_commit(session, &run, file.clone(), rubric, Changed::Revise)?,
            None => false,
        };
        if is_moved || it.candidates.is_some() || is_judged {
            experiment_changed(session, run.id)?;
            changed += 1;
        }
    }
    Ok(changed)
}

fn candidates_replace(session: &mut WriteSession, run: &RunKey, content: &str) -> Attempt<()> {
    let path = session.text(artifact::CANDIDATES)?;
    let blob = session.blob_own(content.as_bytes())?;
    let mut find = session
        .conn
        .prepare_cached("SELECT blob FROM artifacts WHERE run = ?1 AND path = ?2")?;
    let earlier: Option<i64> = find
        .query_row((run.id, path), |row| row.get(0))
        .optional()?;
    session
        .conn
        .prepare_cached(
            "INSERT INTO artifacts (run, path, blob) VALUES (?1, ?2, ?3)
             ON CONFLICT (run, path) DO UPDATE SET blob = excluded.blob",
        )?
        .execute((run.id, path, blob))?;
    // Content with a hash may belong to other runs too.
    session
        .conn
        .prepare_cached("DELETE FROM blobs WHERE id = ?1 AND sha256 IS NULL")?
        .execute([earlier])?;
    Ok(())
}

fn rubric_change(session: &mut WriteSession, run: &RunKey, rubric: &Rubric) -> Attempt<()> {
    tag_keep(session, run.id, tag::RUBRIC, &rubric.id)?;
    tag_keep(session, run.id, tag::RUBRIC_SHA256, &rubric.sha256)?;
    let content = rubric.text.as_bytes();
    let sha256: [u8; 32] = Sha256::digest(content).into();
    debug_assert_eq!(hex(&sha256), rubric.sha256);
    let blob = session.blob_shared(&sha256, content)?;
    let path = session.text(artifact::RUBRIC)?;
    session
        .conn
        .prepare_cached(
            "INSERT INTO artifacts (run, path, blob) VALUES (?1, ?2, ?3)
             ON CONFLICT (run, path) DO UPDATE SET blob = excluded.blob",
        )?
        .execute((run.id, path, blob))?;
    row_write(&session.conn, run.id)
}

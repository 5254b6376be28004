//! Artifacts of runs and of logged models: listing, reading and writing them in chunks.
//!
//! Records of Assize are protected: a verdict file is validated, written once, and never changed or
//! deleted.

use std::collections::BTreeMap;
use std::io::{self, Read, Seek, Write as _};

use assize_domain::run::artifact::{self, VERDICTS};
use assize_domain::verdict::VerdictFile;
use rusqlite::{Connection, OptionalExtension};

use super::runs::{active_run, find};
use super::{LOOSE, logged_models};
use crate::StoreError;
use crate::embedded::board::row_append;
use crate::embedded::experiments::count;
use crate::embedded::rows::RunKey;
use crate::embedded::write_session::{WriteSession, text_find};
use crate::mlflow::FileInfo;
use crate::mlflow::limits::{ARTIFACT_BYTES, artifact_path, shown};
use crate::sqlite::Attempt;

/// The chunk size for reading and copying.
const PART: usize = 256 << 10;

/// The owner of artifacts: its table, the column that refers to it, and its id.
struct ArtifactOwner {
    table: &'static str,
    column: &'static str,
    id: i64,
}

impl ArtifactOwner {
    fn of(conn: &Connection, owner: &str, to_write: bool) -> Attempt<Self> {
        if owner == LOOSE {
            return Ok(Self {
                table: "loose_files",
                column: "owner",
                id: 0,
            });
        }
        if owner.starts_with("m-") {
            return Ok(Self {
                table: "logged_model_files",
                column: "model",
                id: logged_models::need(conn, owner)?,
            });
        }
        let run = if to_write {
            active_run(conn, owner)?
        } else {
            find(conn, owner)?
        };
        Ok(Self {
            table: "artifacts",
            column: "run",
            id: run.id,
        })
    }

    /// Only runs have verdicts.
    fn holds_verdicts(&self, path: &str) -> bool {
        self.column == "run" && path.starts_with(VERDICTS)
    }

    /// Whether the file was judged, so that verdicts refer to its content.
    fn was_judged(&self, conn: &Connection, path: &str) -> Attempt<bool> {
        let is_shown = [artifact::CANDIDATES, artifact::CONTEXT, artifact::RUBRIC].contains(&path);
        if self.column != "run" || !is_shown {
            return Ok(false);
        }
        let mut find = conn.prepare_cached(
            "SELECT EXISTS (SELECT 1 FROM artifacts a JOIN texts p ON p.id = a.path
                            WHERE a.run = ?1 AND substr(p.text, 1, length(?2)) = ?2)",
        )?;
        Ok(find.query_row((self.id, VERDICTS), |row| row.get(0))?)
    }
}

pub(super) fn list(conn: &Connection, owner: &str, folder: &str) -> Attempt<Vec<FileInfo>> {
    let folder = folder.trim_end_matches('/');
    if !folder.is_empty() {
        artifact_path(folder)?;
    }
    let home = ArtifactOwner::of(conn, owner, false)?;
    let mut list = conn.prepare_cached(&format!(
        "SELECT p.text, length(b.content) FROM {} a
         JOIN texts p ON p.id = a.path JOIN blobs b ON b.id = a.blob WHERE a.{} = ?1",
        home.table, home.column
    ))?;
    let mut rows = list.query([home.id])?;
    let mut found: BTreeMap<String, Option<u64>> = BTreeMap::new();
    while let Some(row) = rows.next()? {
        let path: String = row.get(0)?;
        let below = if folder.is_empty() {
            Some(path.as_str())
        } else {
            path.strip_prefix(folder)
                .and_then(|it| it.strip_prefix('/'))
        };
        let Some(below) = below else { continue };
        let start = path.len() - below.len();
        if let Some((child, _)) = below.split_once('/') {
            found.insert(path[..start + child.len()].to_owned(), None);
        } else {
            let size = count(row.get(1)?);
            found.insert(path, Some(size));
        }
    }
    let files = found.into_iter().map(|(path, file_size)| FileInfo {
        path,
        is_dir: file_size.is_none(),
        file_size,
    });
    Ok(files.collect())
}

fn blob_of(conn: &Connection, home: &ArtifactOwner, path: &str) -> Attempt<Option<i64>> {
    let Some(number) = text_find(conn, path)? else {
        return Ok(None);
    };
    let mut find = conn.prepare_cached(&format!(
        "SELECT blob FROM {} WHERE {} = ?1 AND path = ?2",
        home.table, home.column
    ))?;
    let found = find.query_row((home.id, number), |row| row.get(0));
    Ok(found.optional()?)
}

fn blob_need(conn: &Connection, owner: &str, path: &str) -> Attempt<i64> {
    artifact_path(path)?;
    let home = ArtifactOwner::of(conn, owner, false)?;
    blob_of(conn, &home, path)?.ok_or_else(|| no_artifact(path).into())
}

fn no_artifact(path: &str) -> StoreError {
    StoreError::NotFound(format!("No such artifact: '{}'", shown(path)))
}

pub(super) fn size(conn: &Connection, owner: &str, path: &str) -> Attempt<u64> {
    let blob = blob_need(conn, owner, path)?;
    let size = conn
        .prepare_cached("SELECT length(content) FROM blobs WHERE id = ?1")?
        .query_row([blob], |row| row.get(0))?;
    Ok(count(size))
}

pub(super) fn read(
    conn: &Connection,
    owner: &str,
    path: &str,
    visit: &mut dyn FnMut(&[u8]) -> bool,
) -> Attempt<()> {
    let blob = blob_need(conn, owner, path)?;
    let mut content = conn.blob_open("main", "blobs", "content", blob, true)?;
    let mut part = vec![0; PART.min(content.len().max(1))];
    loop {
        let length = content.read(&mut part).map_err(|error| broken(&error))?;
        if length == 0 || !visit(&part[..length]) {
            return Ok(());
        }
    }
}

/// The error of a failed copy between a file and the database.
fn broken(error: &io::Error) -> StoreError {
    StoreError::Unusable {
        path: "an artifact".to_owned(),
        reason: format!("it could not be copied ({error}): try again"),
    }
}

pub(super) fn write(
    session: &mut WriteSession,
    owner: &str,
    path: &str,
    content: &mut (impl Read + Seek),
) -> Attempt<()> {
    let home = ArtifactOwner::of(&session.conn, owner, true)?;
    let size = content
        .seek(io::SeekFrom::End(0))
        .map_err(|error| broken(&error))?;
    content.rewind().map_err(|error| broken(&error))?;
    if size > ARTIFACT_BYTES {
        return Err(StoreError::Invalid(format!(
            "the artifact '{}' has {size} bytes, and the limit is {ARTIFACT_BYTES}",
            shown(path)
        ))
        .into());
    }
    let old = blob_of(&session.conn, &home, path)?;
    let mut verdicts = None;
    if home.holds_verdicts(path) {
        let file = verdicts_check(content, path)?;
        if let Some(old) = old {
            return same(session, old, content, || verdicts_error(path));
        }
        verdicts = Some(file);
    }
    if let Some(old) = old
        && home.was_judged(&session.conn, path)?
    {
        return same(session, old, content, || judged_error(path));
    }
    let blob = session
        .conn
        .prepare_cached("INSERT INTO blobs (content) VALUES (zeroblob(?1))")?
        .insert([i64::try_from(size).unwrap_or(i64::MAX)])?;
    let mut kept = session
        .conn
        .blob_open("main", "blobs", "content", blob, false)?;
    io::copy(content, &mut kept).map_err(|error| broken(&error))?;
    kept.flush().map_err(|error| broken(&error))?;
    drop(kept);
    let number = session.text(path)?;
    session
        .conn
        .prepare_cached(&format!(
            "INSERT INTO {} ({column}, path, blob) VALUES (?1, ?2, ?3)
             ON CONFLICT ({column}, path) DO UPDATE SET blob = excluded.blob",
            home.table,
            column = home.column
        ))?
        .execute((home.id, number, blob))?;
    if let Some(file) = verdicts {
        let run = RunKey {
            id: home.id,
            run_id: owner.to_owned(),
        };
        row_append(&session.conn, &run, &file)?;
    }
    blob_delete(session, old)
}

/// Deletes content that is no longer referenced, unless it is shared.
fn blob_delete(session: &WriteSession, blob: Option<i64>) -> Attempt<()> {
    session
        .conn
        .prepare_cached("DELETE FROM blobs WHERE id = ?1 AND sha256 IS NULL")?
        .execute([blob])?;
    Ok(())
}

fn text_of(content: &mut (impl Read + Seek)) -> Attempt<Vec<u8>> {
    let mut bytes = Vec::new();
    content.rewind().map_err(|error| broken(&error))?;
    content
        .read_to_end(&mut bytes)
        .map_err(|error| broken(&error))?;
    content.rewind().map_err(|error| broken(&error))?;
    Ok(bytes)
}

fn verdicts_check(content: &mut (impl Read + Seek), path: &str) -> Attempt<VerdictFile> {
    serde_json::from_slice(&text_of(content)?).map_err(|error| {
        StoreError::Invalid(format!(
            "'{}' is not a valid verdict file ({error}), and {VERDICTS} is reserved for them: use \
             another folder",
            shown(path)
        ))
        .into()
    })
}

/// Writing the same content again changes nothing; other content is rejected.
fn same(
    session: &WriteSession,
    old: i64,
    content: &mut (impl Read + Seek),
    refusal: impl FnOnce() -> StoreError,
) -> Attempt<()> {
    let same: bool = session
        .conn
        .prepare_cached("SELECT content = ?2 FROM blobs WHERE id = ?1")?
        .query_row((old, text_of(content)?), |row| row.get(0))?;
    if same {
        return Ok(());
    }
    Err(refusal().into())
}

fn judged_error(path: &str) -> StoreError {
    StoreError::Invalid(format!(
        "'{}' was judged and cannot be changed: verdicts refer to its content",
        shown(path)
    ))
}

fn verdicts_error(path: &str) -> StoreError {
    StoreError::Invalid(format!(
        "'{}' holds verdicts, which cannot be changed or deleted: judge again instead",
        shown(path)
    ))
}

pub(super) fn delete(session: &WriteSession, owner: &str, path: &str) -> Attempt<()> {
    let home = ArtifactOwner::of(&session.conn, owner, true)?;
    let mut list = session.conn.prepare_cached(&format!(
        "SELECT a.path, p.text, a.blob FROM {} a JOIN texts p ON p.id = a.path
         WHERE a.{} = ?1 AND (p.text = ?2 OR substr(p.text, 1, length(?2) + 1) = ?2 || '/')",
        home.table, home.column
    ))?;
    let found: Vec<(i64, String, i64)> = list
        .query_map((home.id, path), |row| {
            Ok((row.get(0)?, row.get(1)?, row.get(2)?))
        })?
        .collect::<rusqlite::Result<_>>()?;
    for (number, text, blob) in found {
        if home.holds_verdicts(&text) {
            return Err(verdicts_error(&text).into());
        }
        if home.was_judged(&session.conn, &text)? {
            return Err(judged_error(&text).into());
        }
        session
            .conn
            .prepare_cached(&format!(
                "DELETE FROM {} WHERE {} = ?1 AND path = ?2",
                home.table, home.column
            ))?
            .execute((home.id, number))?;
        blob_delete(session, Some(blob))?;
    }
    Ok(())
}

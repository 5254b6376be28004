//! Opening, checking and migrating a SQLite file; shared by the store and the local state.
//!
//! A file is first opened read-only, so that a database of another program is never modified. The
//! layout's version is `PRAGMA user_version`. Each migration is one script, and all missing ones
//! run in one transaction, so two processes that open an old file at once migrate it once.
//!
//! The file uses a write-ahead log with `synchronous = NORMAL`: committed data survives the death
//! of the process at any time. Commits deliberately do not wait for the disk. A power failure can
//! lose the most recent commits, but cannot corrupt the file.

use std::path::Path;
use std::thread::sleep;
use std::time::Duration;

use rusqlite::config::DbConfig;
use rusqlite::{Connection, ErrorCode, OpenFlags, TransactionBehavior};

use crate::StoreError;

/// How long a process waits for another one to finish its transaction.
const BUSY: Duration = Duration::from_mins(1);

/// A kind of file, with the scripts that create and update it.
#[derive(Debug)]
pub(crate) struct Layout {
    /// Written into the file's header, so that files of different kinds are not confused.
    pub application_id: i32,
    /// The kind of file, for messages.
    pub what: &'static str,
    /// One script for each version, oldest first.
    pub migrations: &'static [&'static str],
}

/// An error inside this crate; becomes a [`StoreError`] once the path is known.
#[derive(Debug)]
pub(crate) enum Fault {
    Sql(rusqlite::Error),
    Store(StoreError),
}

/// The result of the crate's internal functions.
pub(crate) type Attempt<T> = Result<T, Fault>;

impl From<rusqlite::Error> for Fault {
    fn from(error: rusqlite::Error) -> Self {
        Self::Sql(error)
    }
}

impl From<StoreError> for Fault {
    fn from(error: StoreError) -> Self {
        Self::Store(error)
    }
}

impl Fault {
    pub fn at(self, path: &Path) -> StoreError {
        match self {
            Self::Store(error) => error,
            Self::Sql(error) => explain(path, error),
        }
    }
}

fn unusable(path: &Path, reason: impl Into<String>) -> StoreError {
    StoreError::Unusable {
        path: path.display().to_string(),
        reason: reason.into(),
    }
}

/// Adds a remedy to errors for which SQLite's own message does not suggest one.
pub(crate) fn explain(path: &Path, error: rusqlite::Error) -> StoreError {
    let reason = match error.sqlite_error_code() {
        Some(ErrorCode::DiskFull) => {
            "the disk is full, so nothing was written: free some space and run the \
             command again"
        }
        Some(ErrorCode::ReadOnly) => {
            "the file or its folder is read-only: make both writable, or use another file"
        }
        Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked) => {
            "another process has locked it for more than a minute: wait for that process or \
             stop it, then run the command again"
        }
        Some(ErrorCode::NotADatabase) => {
            "this is not a SQLite database, and it was not changed: use another file"
        }
        Some(ErrorCode::CannotOpen) => {
            "the file cannot be opened: check that it is a file, and that it and its folder can \
             be read and written"
        }
        Some(ErrorCode::DatabaseCorrupt) => {
            "the database is damaged: make a copy, then recover it with `sqlite3 FILE .recover` \
             or use another file"
        }
        _ => {
            return StoreError::Sqlite {
                path: path.display().to_string(),
                source: error,
            };
        }
    };
    unusable(path, reason)
}

/// Opens the file, creates it if it does not exist, and migrates it to the current layout.
pub(crate) fn open(path: &Path, layout: &Layout) -> Result<Connection, StoreError> {
    make_folder(path)?;
    check_owner(path, layout)?;
    let mut conn = connect(path).map_err(|fault| fault.at(path))?;
    write_ahead(&conn).map_err(|fault| fault.at(path))?;
    migrate(&mut conn, path, layout)?;
    Ok(conn)
}

/// How a file can be used.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Access {
    ReadWrite,
    ReadOnly,
    /// Read-only, in a folder where not even the files for locks can be made; nobody changes it.
    Immutable,
}

/// Opens the file like [`open`]. One that must not be written to is opened for reading, if its layout
/// is the current one.
pub(crate) fn open_or_read(
    path: &Path,
    layout: &Layout,
) -> Result<(Connection, Access), StoreError> {
    let error = match open(path, layout) {
        Ok(conn) => return Ok((conn, Access::ReadWrite)),
        Err(error) => error,
    };
    if !path.is_file() || is_writable(path) {
        return Err(error);
    }
    // A log that was not merged into the file would be ignored.
    let log = std::fs::metadata(format!("{}-wal", path.display()));
    let has_log = log.is_ok_and(|it| it.len() > 0);
    for access in [Access::ReadOnly, Access::Immutable] {
        if access == Access::Immutable && has_log {
            continue;
        }
        let opened = connect_as(path, access).and_then(|conn| {
            let (_, _, application_id) = owner(&conn)?;
            Ok((version_of(&conn)?, application_id, conn))
        });
        let Ok((version, application_id, conn)) = opened else {
            continue;
        };
        if version == layout.migrations.len() && application_id == layout.application_id {
            return Ok((conn, access));
        }
    }
    Err(error)
}

/// Whether this process may write to the file and make others next to it.
fn is_writable(path: &Path) -> bool {
    let file = std::fs::OpenOptions::new().append(true).open(path);
    let folder = path.parent().filter(|it| !it.as_os_str().is_empty());
    let folder = folder.unwrap_or(Path::new("."));
    let probe = folder.join(format!(".assize-{}.tmp", std::process::id()));
    let made = std::fs::File::create(&probe).is_ok();
    if made {
        let _ = std::fs::remove_file(&probe);
    }
    file.is_ok() && made
}

/// Opens another connection to a file that [`open`] has prepared.
pub(crate) fn connect(path: &Path) -> Attempt<Connection> {
    connect_as(path, Access::ReadWrite)
}

/// The same, for a file that may be read-only.
pub(crate) fn connect_as(path: &Path, access: Access) -> Attempt<Connection> {
    let no_mutex = OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let conn = match access {
        Access::ReadWrite => {
            let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_CREATE;
            Connection::open_with_flags(path, flags | no_mutex)?
        }
        Access::ReadOnly => {
            Connection::open_with_flags(path, OpenFlags::SQLITE_OPEN_READ_ONLY | no_mutex)?
        }
        Access::Immutable => {
            let path = path.display().to_string().replace('%', "%25");
            let path = path.replace('?', "%3f").replace('#', "%23");
            let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_URI;
            Connection::open_with_flags(format!("file:{path}?immutable=1"), flags | no_mutex)?
        }
    };
    conn.busy_timeout(BUSY)?;
    conn.pragma_update(None, "synchronous", "NORMAL")?;
    conn.pragma_update(None, "temp_store", "MEMORY")?;
    conn.pragma_update(None, "foreign_keys", "ON")?;
    // With QPSG, plans depend on the statement only. Otherwise some would be made again for each
    // value.
    conn.set_db_config(DbConfig::SQLITE_DBCONFIG_ENABLE_QPSG, true)?;
    conn.set_prepared_statement_cache_capacity(256);
    Ok(conn)
}

fn make_folder(path: &Path) -> Result<(), StoreError> {
    if path.is_dir() {
        return Err(unusable(
            path,
            "this is a folder: use a file, for example one inside it",
        ));
    }
    let Some(folder) = path.parent().filter(|it| !it.as_os_str().is_empty()) else {
        return Ok(());
    };
    std::fs::create_dir_all(folder).map_err(|error| {
        let reason = format!(
            "its folder cannot be created ({error}): create {} yourself, or use another file",
            folder.display()
        );
        unusable(path, reason)
    })
}

/// Creates an empty file that only its owner can read, if there is none. SQLite gives the files
/// next to it the same permissions.
pub(crate) fn make_private(path: &Path) -> Result<(), StoreError> {
    make_folder(path)?;
    let mut options = std::fs::OpenOptions::new();
    options.write(true).create_new(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    match options.open(path) {
        Err(error) if error.kind() != std::io::ErrorKind::AlreadyExists => Err(unusable(
            path,
            format!("the file cannot be created ({error}): make its folder writable"),
        )),
        _ => Ok(()),
    }
}

/// Rejects a database of another program, without writing to it.
fn check_owner(path: &Path, layout: &Layout) -> Result<(), StoreError> {
    if std::fs::metadata(path).map_or(0, |it| it.len()) == 0 {
        return Ok(());
    }
    let seen = |access: OpenFlags| {
        let flags = access | OpenFlags::SQLITE_OPEN_NO_MUTEX;
        Connection::open_with_flags(path, flags).and_then(|conn| owner(&conn))
    };
    // A process that was killed during a transaction has left a rollback journal, which the next
    // process to open the file plays back. SQLite cannot do that on a read-only connection.
    let (by_mlflow, tables, application_id) = seen(OpenFlags::SQLITE_OPEN_READ_ONLY)
        .or_else(|error| match error.sqlite_error_code() {
            Some(ErrorCode::ReadOnly) => seen(OpenFlags::SQLITE_OPEN_READ_WRITE),
            _ => Err(error),
        })
        .map_err(|error| explain(path, error))?;
    if by_mlflow {
        return Err(unusable(
            path,
            "this is a database of MLflow, and it was not changed: start `mlflow server \
             --backend-store-uri sqlite:///FILE` on it and pass its http:// address as \
             --tracking-uri, or use another file",
        ));
    }
    if tables > 0 && application_id != layout.application_id {
        let reason = format!(
            "this database belongs to another program (it is not {}), and it was not changed: \
             use another file",
            layout.what
        );
        return Err(unusable(path, reason));
    }
    Ok(())
}

/// Whether MLflow created the file, how many tables it has, and its application id.
fn owner(conn: &Connection) -> rusqlite::Result<(bool, u32, i32)> {
    conn.busy_timeout(BUSY)?;
    conn.query_row(
        "SELECT coalesce(sum(name = 'alembic_version'), 0) > 0, count(*),
                (SELECT application_id FROM pragma_application_id)
         FROM sqlite_schema WHERE type = 'table'",
        [],
        |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?)),
    )
}

/// Switching to a write-ahead log needs exclusive access for a moment, and SQLite does not wait for
/// that by itself.
fn write_ahead(conn: &Connection) -> Attempt<()> {
    let mut tries_left = 200;
    loop {
        let mode = conn
            .pragma_update_and_check(None, "journal_mode", "WAL", |row| row.get::<_, String>(0));
        match mode {
            Ok(_) => return Ok(()),
            Err(error)
                if error.sqlite_error_code() == Some(ErrorCode::DatabaseBusy) && tries_left > 0 =>
            {
                tries_left -= 1;
                sleep(Duration::from_millis(10));
            }
            Err(error) => return Err(error.into()),
        }
    }
}

fn version_of(conn: &Connection) -> Attempt<usize> {
    let version = conn
        .prepare_cached("PRAGMA user_version")?
        .query_row([], |row| row.get::<_, i64>(0))?;
    Ok(usize::try_from(version).unwrap_or(usize::MAX))
}

/// Whether a newer version of Assize has migrated the file since this process opened it.
pub(crate) fn is_newer(conn: &Connection, layout: &Layout) -> Attempt<bool> {
    Ok(version_of(conn)? > layout.migrations.len())
}

fn migrate(conn: &mut Connection, path: &Path, layout: &Layout) -> Result<(), StoreError> {
    let wanted = layout.migrations.len();
    let found = apply_missing(conn, layout).map_err(|fault| fault.at(path))?;
    if found > wanted {
        let reason = format!(
            "a newer version of Assize wrote this file (its layout is version {found}, this program \
             supports {wanted}): update assize, or use another file"
        );
        return Err(unusable(path, reason));
    }
    Ok(())
}

/// Runs the missing migrations and returns the version of the file.
fn apply_missing(conn: &mut Connection, layout: &Layout) -> Attempt<usize> {
    let wanted = layout.migrations.len();
    let found = version_of(conn)?;
    if found >= wanted {
        return Ok(found);
    }
    let transaction = conn.transaction_with_behavior(TransactionBehavior::Immediate)?;
    let found = version_of(&transaction)?;
    for script in layout.migrations.iter().skip(found) {
        transaction.execute_batch(script)?;
    }
    if found < wanted {
        transaction.pragma_update(None, "application_id", layout.application_id)?;
        transaction.pragma_update(None, "user_version", i64::try_from(wanted).unwrap_or(0))?;
    }
    transaction.commit()?;
    Ok(found.max(wanted))
}

#[cfg(test)]
mod tests {
    use super::*;

    const ONE: Layout = Layout {
        application_id: 7,
        what: "a test",
        migrations: &["CREATE TABLE things (name TEXT); INSERT INTO things VALUES ('old')"],
    };
    const TWO: Layout = Layout {
        migrations: &[
            ONE.migrations[0],
            "ALTER TABLE things ADD COLUMN size INTEGER; INSERT INTO things VALUES ('new', 2)",
        ],
        ..ONE
    };

    fn names(conn: &Connection) -> Vec<String> {
        let mut list = conn.prepare("SELECT name FROM things").unwrap();
        let names = list.query_map([], |row| row.get(0)).unwrap();
        names.collect::<rusqlite::Result<_>>().unwrap()
    }

    #[test]
    fn an_old_file_is_brought_up_to_date_once_by_many_at_once() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("things.db");
        assert_eq!(names(&open(&path, &ONE).unwrap()), ["old"]);
        std::thread::scope(|scope| {
            for _ in 0..8 {
                scope.spawn(|| {
                    let conn = open(&path, &TWO).unwrap();
                    assert_eq!(names(&conn), ["old", "new"]);
                });
            }
        });
        let error = open(&path, &ONE).unwrap_err().to_string();
        assert!(error.contains("version 2"), "{error}");
        assert!(error.contains("supports 1"), "{error}");
    }

    /// The files that a killed process leaves: a database that a transaction had begun to change,
    /// and the journal that rolls the change back.
    #[test]
    fn a_journal_that_a_killed_process_left_is_played_back() {
        let dir = tempfile::tempdir().unwrap();
        let (live, left) = (dir.path().join("live.db"), dir.path().join("left.db"));
        let conn = Connection::open(&live).unwrap();
        conn.execute_batch(ONE.migrations[0]).unwrap();
        conn.execute_batch(
            "PRAGMA application_id = 7; PRAGMA user_version = 1; PRAGMA cache_size = 1; BEGIN",
        )
        .unwrap();
        let bulk = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 5000)
                    INSERT INTO things SELECT hex(randomblob(200)) FROM n";
        conn.execute_batch(bulk).unwrap();
        std::fs::copy(&live, &left).unwrap();
        let journal = |path: &Path| path.with_extension("db-journal");
        std::fs::copy(journal(&live), journal(&left)).unwrap();
        assert_eq!(names(&open(&left, &ONE).unwrap()), ["old"]);
    }

    #[test]
    fn a_migration_that_fails_changes_nothing() {
        const BROKEN: Layout = Layout {
            migrations: &[
                ONE.migrations[0],
                "DELETE FROM things; CREATE TABLE more (x)",
                "INSERT INTO nowhere VALUES (1)",
            ],
            ..ONE
        };
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("things.db");
        drop(open(&path, &ONE).unwrap());
        let error = open(&path, &BROKEN).unwrap_err().to_string();
        assert!(error.contains("nowhere"), "{error}");
        assert_eq!(names(&open(&path, &ONE).unwrap()), ["old"]);
        assert_eq!(names(&open(&path, &TWO).unwrap()), ["old", "new"]);
    }
}

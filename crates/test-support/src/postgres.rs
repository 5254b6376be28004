//! A real PostgreSQL server on a free port of this machine, with data of its own.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use crate::limits::free_port;

/// The user that runs the server if the tests run as root, which PostgreSQL refuses.
const ORDINARY_USER: &str = "nobody";

/// A server that ends with the test.
#[derive(Debug)]
pub struct Postgres {
    /// The address of a database, for `SQLAlchemy`.
    pub uri: String,
    programs: PathBuf,
    folder: tempfile::TempDir,
}

impl Postgres {
    /// Starts a server; `None`, with a message, where PostgreSQL cannot be had.
    pub fn start() -> Option<Self> {
        let Some(programs) = programs() else {
            eprintln!("SKIPPED: there is no PostgreSQL here (apt-get install postgresql)");
            return None;
        };
        let folder = tempfile::tempdir().expect("a folder");
        if is_root() {
            let owned = Command::new("chown")
                .arg(ORDINARY_USER)
                .arg(folder.path())
                .status();
            assert!(
                owned.is_ok_and(|it| it.success()),
                "the folder is given away"
            );
        }
        let port = free_port();
        let server = Self {
            uri: format!("postgresql+psycopg2://assize@127.0.0.1:{port}/postgres"),
            programs,
            folder,
        };
        let place = server.folder.path().display().to_string();
        server.run(
            "initdb",
            &["--auth=trust", "--username=assize", "--no-sync"],
        );
        let words = format!("-h 127.0.0.1 -p {port} -k {place} -F");
        let log = format!("{place}/log");
        server.run("pg_ctl", &["start", "-w", "-l", &log, "-o", &words]);
        Some(server)
    }

    fn run(&self, program: &str, words: &[&str]) {
        let program = self.programs.join(program);
        let mut command = if is_root() {
            let mut command = Command::new("setpriv");
            command
                .args([
                    "--reuid",
                    ORDINARY_USER,
                    "--regid",
                    "65534",
                    "--clear-groups",
                    "--",
                ])
                .arg(program);
            command
        } else {
            Command::new(program)
        };
        let done = command
            .args(words)
            .arg("-D")
            .arg(self.folder.path().join("data"))
            .current_dir(self.folder.path())
            .env("HOME", self.folder.path())
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .status();
        assert!(
            done.is_ok_and(|it| it.success()),
            "{words:?} of PostgreSQL fails"
        );
    }
}

impl Drop for Postgres {
    fn drop(&mut self) {
        self.run("pg_ctl", &["stop", "-m", "immediate"]);
    }
}

/// The folder of PostgreSQL's programs, which Debian does not put on the path.
fn programs() -> Option<PathBuf> {
    let versions = std::fs::read_dir("/usr/lib/postgresql")
        .into_iter()
        .flatten();
    let mut folders: Vec<PathBuf> = versions.flatten().map(|it| it.path().join("bin")).collect();
    folders.extend(["/usr/bin", "/usr/local/bin"].map(PathBuf::from));
    folders.into_iter().find(|it| it.join("initdb").exists())
}

fn is_root() -> bool {
    let owner = std::fs::metadata(Path::new("/proc/self"));
    owner.is_ok_and(|it| std::os::unix::fs::MetadataExt::uid(&it) == 0)
}

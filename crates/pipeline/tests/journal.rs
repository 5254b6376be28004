//! The journal before a remote store, with a stand-in for the server: an embedded store that
//! can be unreachable, that can refuse a cell, and that counts what it is sent. The real server is
//! met in the tests of the binary.

#![expect(clippy::unwrap_used, reason = "tests fail by panicking")]

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicI64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use assize_domain::run::{CellRecord, RunStatus, tag};
use assize_pipeline::journal::{Delivery, Journal, Notice};
use assize_store::embedded::{EmbeddedStore, random_run_id};
use assize_store::state::State;
use assize_store::{Cells, KnownCell, Recorded, Result, Run, RunQuery, Runs as _, StoreError};

/// Stands in for a tracking server.
#[derive(Debug)]
struct StandIn {
    uri: String,
    store: EmbeddedStore,
    up: AtomicBool,
    refused: Mutex<Option<String>>,
    /// How often each cell was sent and taken.
    sent: Mutex<BTreeMap<String, u32>>,
    slow: Duration,
}

impl StandIn {
    fn new(folder: &Path, uri: &str) -> Arc<Self> {
        let path = folder.join(format!("{}.db", uri.replace([':', '/'], "-")));
        Arc::new(Self {
            uri: uri.to_owned(),
            store: EmbeddedStore::open(&path, || 0, random_run_id).unwrap(),
            up: AtomicBool::new(true),
            refused: Mutex::new(None),
            sent: Mutex::new(BTreeMap::new()),
            slow: Duration::from_millis(20),
        })
    }

    fn is_up(&self, up: bool) {
        self.up.store(up, Ordering::SeqCst);
    }

    fn answer(&self) -> Result<()> {
        if self.up.load(Ordering::SeqCst) {
            return Ok(());
        }
        Err(StoreError::Unreachable {
            uri: self.uri.clone(),
            reason: "connection refused".to_owned(),
        })
    }

    fn sent(&self) -> Vec<(String, u32)> {
        self.sent.lock().unwrap().clone().into_iter().collect()
    }

    /// The cells that are there, each as often as it is.
    fn cells(&self) -> Vec<String> {
        let Ok(page) = self.store.run_list("e", &RunQuery::default()) else {
            return Vec::new();
        };
        let key = |run: &Run| {
            let found = run.tags.iter().find(|(name, _)| name == tag::CELL_KEY);
            found.unwrap().1.clone()
        };
        let mut cells: Vec<String> = page.runs.iter().map(key).collect();
        cells.sort();
        cells
    }
}

impl Cells for StandIn {
    fn cells_known(&self, experiment: &str, keys: &[String]) -> Result<Vec<Option<KnownCell>>> {
        self.answer()?;
        self.store.cells_known(experiment, keys)
    }

    fn cells_record(&self, experiment: &str, cells: &[CellRecord]) -> Result<Vec<Recorded>> {
        self.answer()?;
        let refused = self.refused.lock().unwrap().clone();
        if cells
            .iter()
            .any(|it| Some(&it.cell_key) == refused.as_ref())
        {
            return Err(StoreError::Conflict("too large for me".to_owned()));
        }
        std::thread::sleep(self.slow);
        let mut sent = self.sent.lock().unwrap();
        for cell in cells {
            *sent.entry(cell.cell_key.clone()).or_default() += 1;
        }
        drop(sent);
        self.store.cells_record(experiment, cells)
    }
}

/// One process of this machine, with what it was told.
struct Process {
    store: Journal,
    told: Arc<Mutex<Vec<Notice>>>,
}

fn process(folder: &Path, server: &Arc<StandIn>, clock: fn() -> i64) -> Process {
    let told = Arc::new(Mutex::new(Vec::new()));
    let hear = Arc::clone(&told);
    let store = Journal::new(
        Arc::clone(server) as Arc<dyn Cells>,
        &server.uri,
        Arc::new(State::open(folder).unwrap()),
        folder.join("locks"),
        clock,
        Box::new(move |notice| hear.lock().unwrap().push(notice.clone())),
    );
    Process { store, told }
}

impl Process {
    fn record(&self, keys: &[&str]) -> Vec<bool> {
        let cells: Vec<CellRecord> = keys.iter().map(|key| cell(key)).collect();
        let recorded = self.store.cells_record("e", &cells).unwrap();
        assert!(recorded.iter().all(|it| it.written));
        recorded.iter().map(|it| it.run_id.is_some()).collect()
    }

    fn known(&self, key: &str) -> Option<bool> {
        let known = self.store.cells_known("e", &[key.to_owned()]).unwrap();
        known[0].as_ref().map(|it| it.run_id.is_some())
    }

    fn deliver(&self) -> (u64, u64) {
        let Delivery { delivered, waiting } = self.store.deliver(&|| false).unwrap();
        (delivered, waiting)
    }

    fn told(&self) -> Vec<Notice> {
        std::mem::take(&mut self.told.lock().unwrap())
    }
}

fn cell(key: &str) -> CellRecord {
    CellRecord {
        cell_key: key.to_owned(),
        name: format!("m × v1 × {key}"),
        status: RunStatus::Finished,
        start_time_ms: 1,
        end_time_ms: 2,
        params: vec![("model".into(), "m".into())],
        tags: vec![("judge_pending".into(), "true".into())],
        metrics: vec![("n_candidates".into(), 1.0)],
        artifacts: vec![("raw.txt".into(), key.into())],
    }
}

fn no_time() -> i64 {
    0
}

fn unreachable() -> Notice {
    Notice::Unreachable {
        reason: "connection refused".to_owned(),
    }
}

#[test]
fn a_server_that_goes_away_and_comes_back_gets_everything_once() {
    static NOW_MS: AtomicI64 = AtomicI64::new(0);
    let dir = tempfile::tempdir().unwrap();
    let server = StandIn::new(dir.path(), "http://stand-in:5000");
    let process = process(dir.path(), &server, || NOW_MS.load(Ordering::SeqCst));
    assert_eq!(process.record(&["a"]), [true]);
    server.is_up(false);
    assert_eq!(process.record(&["b", "c"]), [false, false]);
    assert_eq!(process.record(&["d"]), [false]);
    assert_eq!(process.told(), [unreachable()], "told once");
    assert_eq!(process.known("b"), Some(false), "it waits");
    assert_eq!(process.known("z"), None);

    server.is_up(true);
    assert_eq!(process.record(&["e"]), [false], "it is left alone a while");
    NOW_MS.store(3_600_000, Ordering::SeqCst);
    assert_eq!(process.record(&["f"]), [true]);
    assert_eq!(process.told(), [Notice::Reachable { waiting: 4 }]);
    assert_eq!(process.known("b"), Some(true));
    assert_eq!(process.deliver(), (0, 0));
    assert_eq!(server.cells(), ["a", "b", "c", "d", "e", "f"]);
    assert!(server.sent().iter().all(|(_, times)| *times == 1));
}

#[test]
fn the_next_process_delivers_what_the_last_one_left() {
    let dir = tempfile::tempdir().unwrap();
    let server = StandIn::new(dir.path(), "http://stand-in:5000");
    let other = StandIn::new(dir.path(), "http://other:5000");
    server.is_up(false);
    let first = process(dir.path(), &server, no_time);
    let keys: Vec<String> = (0..300).map(|n| format!("{n:03}")).collect();
    let names: Vec<&str> = keys.iter().map(String::as_str).collect();
    first.record(&names);
    assert_eq!(first.deliver(), (0, 300));
    drop(first);

    // Nobody else's journal is touched.
    let elsewhere = process(dir.path(), &other, no_time);
    assert_eq!(elsewhere.known("000"), None);
    assert_eq!(elsewhere.deliver(), (0, 0));

    let next = process(dir.path(), &server, no_time);
    assert_eq!(next.deliver(), (0, 300), "it is still unreachable");
    assert_eq!(next.told(), [unreachable()]);
    server.is_up(true);
    assert_eq!(next.deliver(), (300, 0));
    assert_eq!(next.deliver(), (0, 0));
    assert_eq!(server.cells(), keys);
    assert_eq!(other.cells(), [""; 0]);
}

#[test]
fn two_processes_that_deliver_at_once_send_each_cell_once() {
    let dir = tempfile::tempdir().unwrap();
    let server = StandIn::new(dir.path(), "http://stand-in:5000");
    server.is_up(false);
    let first = process(dir.path(), &server, no_time);
    let keys: Vec<String> = (0..200).map(|n| format!("{n:03}")).collect();
    first.record(&keys.iter().map(String::as_str).collect::<Vec<_>>());
    let second = process(dir.path(), &server, no_time);
    server.is_up(true);
    let delivered: u64 = std::thread::scope(|scope| {
        let both = [&first, &second].map(|it| scope.spawn(|| it.deliver().0));
        both.into_iter().map(|it| it.join().unwrap()).sum()
    });
    assert_eq!(delivered, 200);
    assert_eq!(server.cells(), keys);
    assert!(server.sent().iter().all(|(_, times)| *times == 1));
}

#[test]
fn a_cell_that_was_delivered_before_its_process_died_is_not_there_twice() {
    let dir = tempfile::tempdir().unwrap();
    let server = StandIn::new(dir.path(), "http://stand-in:5000");
    let process = process(dir.path(), &server, no_time);
    process.record(&["a"]);
    // As if the process had been killed after the server's answer.
    let state = State::open(dir.path()).unwrap();
    state
        .journal_put("http://stand-in:5000", "e", &[cell("a"), cell("b")])
        .unwrap();
    assert_eq!(process.deliver(), (2, 0));
    assert_eq!(server.cells(), ["a", "b"]);
}

#[test]
fn a_cell_that_the_server_refuses_stays_and_holds_up_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let server = StandIn::new(dir.path(), "http://stand-in:5000");
    server.is_up(false);
    let process = process(dir.path(), &server, no_time);
    process.record(&["a", "b", "c"]);
    process.told();
    server.is_up(true);
    *server.refused.lock().unwrap() = Some("b".to_owned());
    assert_eq!(process.deliver(), (2, 1));
    assert_eq!(server.cells(), ["a", "c"]);
    let refused = Notice::Refused {
        cell: "m × v1 × b".to_owned(),
        reason: "too large for me".to_owned(),
    };
    assert_eq!(process.told(), [refused, Notice::Reachable { waiting: 1 }]);
    *server.refused.lock().unwrap() = None;
    assert_eq!(process.deliver(), (1, 0));
}

#[test]
fn credentials_are_no_part_of_a_place() {
    let dir = tempfile::tempdir().unwrap();
    let secret = StandIn::new(dir.path(), "http://me:secret@stand-in:5000/");
    secret.is_up(false);
    process(dir.path(), &secret, no_time).record(&["a"]);
    let state = State::open(dir.path()).unwrap();
    assert_eq!(
        state.journal_places().unwrap(),
        [("http://stand-in:5000".to_owned(), 1)]
    );
    let plain = StandIn::new(dir.path(), "http://stand-in:5000");
    assert_eq!(process(dir.path(), &plain, no_time).deliver(), (1, 0));
    assert_eq!(plain.cells(), ["a"]);
}

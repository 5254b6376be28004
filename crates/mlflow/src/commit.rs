//! Writing verdicts.
//!
//! A sitting that is applied as a whole is committed in three steps. Its files are written to their
//! runs, named by params that contain the commit id. Then the commit mark is set on the sitting's
//! own run. Then every run's metrics and tags are updated. If this is interrupted before the mark
//! is set, nothing counts. If it is interrupted later, applying the same file again completes the
//! derived values.
//!
//! A sitting at the queue submits a few runs at a time, and each counts separately: the param of
//! its file, its metrics and its tags are written in one request.

use assize_domain::hash::sha256_hex;
use assize_domain::rubric::Rubric;
use assize_domain::run::tag;
use assize_domain::sitting::ANCHORS;
use assize_domain::verdict::{Summary, VerdictFile, summarise};
use assize_store::rules::{self, Changed};
use assize_store::{Committed, FileSource, Result, StoreError};

use crate::artifacts::corrupt;
use crate::runs::Entries;
use crate::verdicts::{COMMIT, Marks, counting, is_named, param_of, set_aside, verdict_tag};
use crate::wire::Tracked;
use crate::{MlflowStore, lock, parallel};

/// The number of verdict files that are written together.
const BATCH: usize = 32;

/// A run during a commit.
pub(crate) struct Judged {
    run_id: String,
    pub written: bool,
    /// The params that named verdict files when the summary was made.
    params: Vec<String>,
    summary: Summary,
}

/// A verdict file that was stored.
struct Stored {
    /// The param that makes it count.
    name: String,
    /// The param's value, if that has not been written yet.
    hash: Option<String>,
    /// The tag that repeats its content.
    tag: Option<(String, String)>,
}

/// Writes verdict files, one per run, all or none.
pub(crate) fn sitting_commit_each(
    store: &MlflowStore,
    rubric: &Rubric,
    give: FileSource<'_>,
) -> Result<Committed> {
    let marks = Marks::new(store);
    let mut whole = WholeCommit {
        store,
        rubric,
        marks,
        commit: format!("{:x}", store.now_ms()),
        sitting: None,
        waiting: Vec::new(),
        judged: Vec::new(),
        failed: None,
    };
    let given = give(&mut |run_id, file| {
        whole.waiting.push((run_id.to_owned(), file));
        if whole.waiting.len() >= BATCH {
            whole.write_waiting();
        }
        whole.failed.is_none()
    });
    if given.is_ok() {
        whole.write_waiting();
    }
    if let Some(error) = whole.failed {
        return Err(error);
    }
    given?;
    whole.finish()
}

impl MlflowStore {
    /// Stores a verdict file with a run.
    ///
    /// With a commit the param is written first: no reader opens the file before the commit mark is
    /// set, and two processes that apply one sitting at once get different file names.
    fn file_write(
        &self,
        run: &Tracked,
        part: &VerdictFile,
        commit: Option<&str>,
    ) -> Result<Stored> {
        let mut taken: Vec<String> = Vec::new();
        loop {
            let is_taken = |path: &str| is_named(run, path) || taken.iter().any(|it| it == path);
            let path = rules::free_path(is_taken, &part.sitting);
            let text = serde_json::to_string(part).map_err(|error| corrupt(run, &path, &error))?;
            let hash = sha256_hex(text.as_bytes());
            let name = param_of(&path);
            if let Some(commit) = commit {
                let value = format!("{hash} {commit}");
                if !self.param_claim(&run.run_id, &name, &value)? {
                    taken.push(path);
                    continue;
                }
            }
            self.file_put(run, &path, text.as_bytes())?;
            return Ok(Stored {
                name,
                hash: commit.is_none().then_some(hash),
                // `assize serve` shows all tags, and reads verdict files quickly.
                tag: if self.is_assize()? {
                    None
                } else {
                    verdict_tag(&path, text)
                },
            });
        }
    }

    /// Writes verdicts on a sitting's anchors, which are stored with the sitting's run.
    pub(crate) fn anchors_write(
        &self,
        file: &VerdictFile,
        changed: Changed,
        commit: Option<&str>,
        marks: &Marks<'_>,
    ) -> Result<()> {
        let run = self.sitting_run_need(&file.sitting)?;
        let kept = counting(self.verdicts_read(&run, marks)?, &[]);
        let mut part = file.clone();
        rules::keep_new(&kept, &mut part, changed, || "its anchors".to_owned())?;
        if part.verdicts.is_empty() {
            return Ok(());
        }
        let stored = self.file_write(&run, &part, commit)?;
        let param = stored.hash.map(|hash| (stored.name, hash));
        let entries = Entries {
            params: param.into_iter().collect(),
            ..Entries::default()
        };
        self.write(&run, entries)
    }

    /// Writes the new verdicts of a file and returns the run's new summary. Without a commit the
    /// verdicts count at once.
    pub(crate) fn run_judge(
        &self,
        run: &Tracked,
        file: &VerdictFile,
        rubric: &Rubric,
        changed: Changed,
        commit: Option<&str>,
        marks: &Marks<'_>,
    ) -> Result<Judged> {
        let judgeable = rules::judgeable(&self.candidates_read(run)?);
        let aside = set_aside(run);
        let current = run.tag(tag::RUBRIC_SHA256);
        rules::verdicts_check(&run.run_id, file, rubric, current, &aside, &judgeable)?;
        let mut files = counting(self.verdicts_read(run, marks)?, &[]);
        let mut part = file.clone();
        rules::keep_new(&files, &mut part, changed, || format!("run {}", run.run_id))?;
        let written = !part.verdicts.is_empty();
        let mut params = verdict_params(run);
        let mut entries = Entries::default();
        if written {
            let Stored { name, hash, tag } = self.file_write(run, &part, commit)?;
            params.push(name.clone());
            params.sort();
            entries.params.extend(hash.map(|hash| (name, hash)));
            entries.tags.extend(tag);
            files.push(part);
        }
        files.retain(|file| !aside.contains(&file.sitting));
        let summary = summarise(&files, rubric, judgeable.len());
        if commit.is_none() {
            put_summary(&mut entries, run, &summary);
        }
        if commit.is_none() || !entries.tags.is_empty() {
            self.write(run, entries)?;
        }
        Ok(Judged {
            run_id: run.run_id.clone(),
            written,
            params,
            summary,
        })
    }

    /// Writes verdicts that count at once, run by run.
    pub(crate) fn commit_parts(
        &self,
        files: &[(Tracked, &VerdictFile)],
        rubric: &Rubric,
    ) -> Result<Committed> {
        let marks = Marks::new(self);
        let judged = parallel::each(files, |(run, file)| {
            self.run_judge(run, file, rubric, Changed::Revise, None, &marks)
        })?;
        Ok(count(&judged))
    }

    /// Updates a run after the commit mark has been set.
    fn derive(&self, judged: &Judged, rubric: &Rubric, marks: &Marks<'_>) -> Result<()> {
        let run = self.run_load(&judged.run_id)?;
        let anew;
        let summary = if verdict_params(&run) == judged.params {
            &judged.summary
        } else {
            // Another sitting has judged the run meanwhile.
            let files = counting(self.verdicts_read(&run, marks)?, &set_aside(&run));
            let candidates = self.candidates_read(&run)?;
            anew = summarise(&files, rubric, rules::judgeable(&candidates).len());
            &anew
        };
        let mut entries = Entries::default();
        put_summary(&mut entries, &run, summary);
        self.write(&run, entries)
    }
}

/// The commit of a sitting that is applied as a whole.
struct WholeCommit<'a> {
    store: &'a MlflowStore,
    rubric: &'a Rubric,
    marks: Marks<'a>,
    commit: String,
    sitting: Option<String>,
    waiting: Vec<(String, VerdictFile)>,
    judged: Vec<Judged>,
    failed: Option<StoreError>,
}

impl WholeCommit<'_> {
    fn write_waiting(&mut self) {
        let waiting = std::mem::take(&mut self.waiting);
        if self.failed.is_some() {
            return;
        }
        self.sitting = self
            .sitting
            .take()
            .or_else(|| waiting.first().map(|(_, file)| file.sitting.clone()));
        let store = self.store;
        let commit = Some(self.commit.as_str());
        let written = parallel::each(&waiting, |(run_id, file)| {
            if run_id == ANCHORS {
                store.anchors_write(file, Changed::Refuse, commit, &self.marks)?;
                return Ok(None);
            }
            let run = store.run_load(run_id)?;
            let refuse = Changed::Refuse;
            let judged = store.run_judge(&run, file, self.rubric, refuse, commit, &self.marks)?;
            Ok(Some(judged))
        });
        match written {
            Ok(judged) => self.judged.extend(judged.into_iter().flatten()),
            Err(error) => self.failed = Some(error),
        }
    }

    fn finish(self) -> Result<Committed> {
        let store = self.store;
        if let Some(sitting) = &self.sitting {
            let run = store.sitting_run_need(sitting)?;
            let mark = format!("{COMMIT}{}", self.commit);
            store.param_claim(&run.run_id, &mark, "done")?;
        }
        let marks = Marks::new(store);
        parallel::each(&self.judged, |judged| {
            store.derive(judged, self.rubric, &marks)
        })?;
        lock(&store.waiting).clear();
        Ok(count(&self.judged))
    }
}

fn verdict_params(run: &Tracked) -> Vec<String> {
    let keys = run.params.keys();
    keys.filter(|key| key.starts_with("verdict."))
        .cloned()
        .collect()
}

fn count(judged: &[Judged]) -> Committed {
    let written = judged.iter().filter(|it| it.written).count() as u64;
    Committed {
        runs_written: written,
        runs_unchanged: judged.len() as u64 - written,
    }
}

/// Adds the values of a summary that differ from the run's.
pub(crate) fn put_summary(entries: &mut Entries, run: &Tracked, summary: &Summary) {
    let tags = summary.tags.iter();
    let tags = tags.filter(|(key, value)| run.tag(key) != Some(value.as_str()));
    entries.tags.extend(tags.cloned());
    let is_there = |key: &str, value: f64| {
        run.metric(key).is_some_and(|there| {
            there.to_bits() == value.to_bits() || there.is_nan() && value.is_nan()
        })
    };
    let metrics = summary.metrics.iter();
    let metrics = metrics.filter(|(key, value)| !is_there(key, *value));
    entries.metrics.extend(metrics.cloned());
}

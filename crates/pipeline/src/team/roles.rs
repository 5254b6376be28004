//! The roles of a store: what reads many runs reads the copy, what writes goes to the server.

use assize_domain::ledger::Entry;
use assize_domain::promotion::{Nominee, Promotion};
use assize_domain::rubric::Rubric;
use assize_domain::scenario::Split;
use assize_domain::sitting::Sitting;
use assize_domain::verdict::VerdictFile;
use assize_store::following::Followed;
use assize_store::queue::{
    Closing, HeldRun, LeaseRequest, Leased, RecomputedRun, Reopening, RubricUse, SittingRecord,
    TrackedPair, VerdictSubmission,
};
use assize_store::{
    Additions, BoardRun, Boards, Committed, Copying, ExperimentSummary, FileSource, Imported,
    ImportedRun, JudgingCounts, Leases, Ledger, PendingQuery, PendingRun, Promotions, Queue,
    Result, Run, RunPage, RunQuery, Runs, Sittings, Tracking, WholeRun,
};

use super::Team;

impl Runs for Team {
    fn experiment_list(&self) -> Result<Vec<ExperimentSummary>> {
        self.copy.experiment_list()
    }

    fn run_list(&self, experiment: &str, query: &RunQuery) -> Result<RunPage> {
        self.copy.run_list(experiment, query)
    }

    /// The list of files is the server's if it can be reached: the copy has only those that were
    /// needed.
    fn run_get(&self, run_id: &str) -> Result<Run> {
        let mut run = self.copy.run_get(run_id)?;
        if let Ok(theirs) = self.ask(|server| server.run_get(&run.run_id)) {
            run.artifacts = theirs.artifacts;
        }
        Ok(run)
    }

    fn run_delete(&self, run_ids: &[String]) -> Result<()> {
        self.ask(|server| server.run_delete(run_ids))?;
        self.reread(run_ids);
        Ok(())
    }

    fn artifacts_get(&self, run_id: &str, paths: &[&str]) -> Result<Vec<Option<String>>> {
        let run_id = &self.copy.run_get(run_id)?.run_id;
        let known = self.copy.artifacts_get(run_id, paths)?;
        if known.iter().all(Option::is_some) {
            return Ok(known);
        }
        match self.texts_fetch(run_id, paths) {
            Ok(()) => self.copy.artifacts_get(run_id, paths),
            Err(_) => Ok(known),
        }
    }

    fn artifact_get_bytes(&self, run_id: &str, path: &str) -> Result<Option<Vec<u8>>> {
        match self.copy.artifact_get_bytes(run_id, path)? {
            Some(content) => Ok(Some(content)),
            None => self.ask(|server| server.artifact_get_bytes(run_id, path)),
        }
    }

    fn verdicts_get(&self, run_id: &str) -> Result<Vec<VerdictFile>> {
        self.copy.verdicts_get(run_id)
    }
}

impl Boards for Team {
    fn board_each(
        &self,
        experiment: &str,
        split: Split,
        visit: &mut dyn FnMut(BoardRun<'_>) -> Result<()>,
    ) -> Result<()> {
        self.copy.board_each(experiment, split, visit)
    }
}

impl Queue for Team {
    /// Rare, and needs every candidate, so it reads the server.
    fn pending_each(
        &self,
        experiment: &str,
        query: &PendingQuery,
        visit: &mut dyn FnMut(PendingRun) -> Result<()>,
    ) -> Result<()> {
        self.ask(|server| server.pending_each(experiment, query, visit))
    }

    fn judging_count(&self, experiment: &str) -> Result<JudgingCounts> {
        self.copy.judging_count(experiment)
    }

    fn rubric_list(&self, experiment: &str) -> Result<Vec<RubricUse>> {
        self.copy.rubric_list(experiment)
    }

    fn pair_list(&self, experiment: &str) -> Result<Vec<TrackedPair>> {
        self.copy.pair_list(experiment)
    }

    fn runs_reopen(&self, reopening: &Reopening) -> Result<u64> {
        let reopened = self.ask(|server| server.runs_reopen(reopening))?;
        self.reread(&reopening.run_ids);
        Ok(reopened)
    }

    fn runs_recompute(&self, runs: &[RecomputedRun], rubric: &Rubric) -> Result<u64> {
        let changed = self.ask(|server| server.runs_recompute(runs, rubric))?;
        let run_ids: Vec<String> = runs.iter().map(|it| it.run_id.clone()).collect();
        self.reread(&run_ids);
        Ok(changed)
    }
}

impl Leases for Team {
    fn lease_take(&self, request: &LeaseRequest) -> Result<Leased> {
        self.check_reachable()?;
        self.deliver()?;
        let leased = self.ask(|server| server.lease_take(request))?;
        let runs: Vec<String> = leased.runs.iter().map(|it| it.run_id.clone()).collect();
        if !runs.is_empty() {
            self.reread(&runs);
        }
        Ok(leased)
    }

    fn lease_list(&self, sitting: &str) -> Result<Vec<HeldRun>> {
        self.deliver()?;
        self.ask(|server| server.lease_list(sitting))
    }

    fn sitting_submit(&self, submission: &VerdictSubmission) -> Result<Committed> {
        self.submit(submission)
    }
}

impl Sittings for Team {
    fn sitting_open(&self, sitting: &Sitting) -> Result<()> {
        self.ask(|server| server.sitting_open(sitting))?;
        // A judge must not see results from now on, so the copy knows the sitting at once.
        let record = SittingRecord {
            sitting: sitting.clone(),
            state: assize_domain::sitting::SittingState::Open,
            closed_at: None,
            lives_until_ms: 0,
            judge: sitting.judge.clone(),
            drift: None,
            anchor_files: Vec::new(),
        };
        let followed = Followed {
            sittings: vec![record],
            ..Followed::default()
        };
        self.copy.mirror_apply(followed, (self.clock)())
    }

    fn sitting_get(&self, id: &str) -> Result<Option<Sitting>> {
        match self.copy.sitting_get(id)? {
            Some(sitting) => Ok(Some(sitting)),
            None => self.ask(|server| server.sitting_get(id)),
        }
    }

    fn sitting_record_get(&self, id: &str) -> Result<Option<SittingRecord>> {
        match self.copy.sitting_record_get(id)? {
            Some(record) => Ok(Some(record)),
            None => self.ask(|server| server.sitting_record_get(id)),
        }
    }

    fn sitting_list(&self, experiment: &str) -> Result<Vec<SittingRecord>> {
        self.copy.sitting_list(experiment)
    }

    fn sitting_close(&self, id: &str, closing: &Closing) -> Result<()> {
        self.deliver()?;
        self.ask(|server| server.sitting_close(id, closing))?;
        self.reread_sitting(id);
        // A quarantine changes every run that the sitting judged.
        let _ = self.refresh();
        Ok(())
    }

    fn sitting_commit_each(&self, rubric: &Rubric, give: FileSource<'_>) -> Result<Committed> {
        let committed = self.ask(|server| server.sitting_commit_each(rubric, give))?;
        let _ = self.refresh();
        Ok(committed)
    }
}

impl Ledger for Team {
    fn ledger_list(&self, experiment: &str) -> Result<Vec<Entry>> {
        self.copy.ledger_list(experiment)
    }

    fn ledger_append(&self, experiment: &str, entry: &Entry) -> Result<()> {
        self.ask(|server| server.ledger_append(experiment, entry))?;
        let (key, value) = entry.tag();
        self.copy.experiment_tags_add(experiment, &[(key, value)])
    }
}

impl Promotions for Team {
    fn champion_get(&self, task: &str) -> Result<Option<Promotion>> {
        self.copy.champion_get(task)
    }

    fn promotion_list(&self, task: &str) -> Result<Vec<Promotion>> {
        self.copy.promotion_list(task)
    }

    fn promotion_record(&self, promotion: &Promotion) -> Result<u32> {
        let recorded = self.ask(|server| server.promotion_record(promotion));
        // Also after a refusal, because another promotion came first then.
        if let Ok(list) = self.ask(|server| server.promotion_list(&promotion.task)) {
            let followed = Followed {
                promotions: vec![(promotion.task.clone(), list)],
                ..Followed::default()
            };
            let _ = self.copy.mirror_apply(followed, (self.clock)());
        }
        recorded
    }

    fn nominee_record(&self, nominee: &Nominee) -> Result<u32> {
        self.ask(|server| server.nominee_record(nominee))
    }

    fn nominee_withdraw(&self, task: &str, version: u32) -> Result<()> {
        self.ask(|server| server.nominee_withdraw(task, version))
    }
}

/// Copying is between stores, so it is the server's.
impl Copying for Team {
    fn runs_import(&self, experiment: &str, runs: &[ImportedRun]) -> Result<Vec<Imported>> {
        self.ask(|server| server.runs_import(experiment, runs))
    }

    fn run_get_whole(&self, run_id: &str) -> Result<WholeRun> {
        self.ask(|server| server.run_get_whole(run_id))
    }

    fn run_add(&self, run_id: &str, additions: &Additions) -> Result<()> {
        self.ask(|server| server.run_add(run_id, additions))
    }

    fn artifact_add(&self, run_id: &str, path: &str, content: Vec<u8>) -> Result<()> {
        self.ask(|server| server.artifact_add(run_id, path, content))
    }

    fn experiment_tags_get(&self, experiment: &str) -> Result<Vec<(String, String)>> {
        self.ask(|server| server.experiment_tags_get(experiment))
    }

    fn experiment_tags_add(&self, experiment: &str, tags: &[(String, String)]) -> Result<()> {
        self.ask(|server| server.experiment_tags_add(experiment, tags))
    }

    fn logged_model_count(&self, experiment: &str) -> Result<u64> {
        self.ask(|server| server.logged_model_count(experiment))
    }

    fn sitting_import(&self, record: &SittingRecord) -> Result<bool> {
        self.ask(|server| server.sitting_import(record))
    }

    fn runs_tidy(&self, experiment: &str) -> Result<u64> {
        self.ask(|server| server.runs_tidy(experiment))
    }
}

impl Tracking for Team {
    fn uri(&self) -> &str {
        self.server.uri()
    }
}

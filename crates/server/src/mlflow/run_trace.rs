//! The trace of a run that Assize collected: `tr-RUN_ID`.
//!
//! It is not stored, but generated from the run on request. Its single span has the prompt and the
//! context as inputs and the candidates as outputs. Verdicts become assessments, one per candidate
//! and criterion; those of a sitting that was set aside are marked as not valid.

use assize_domain::hash::sha256;
use assize_domain::judge::Tier;
use assize_domain::run::{artifact, tag};
use assize_domain::verdict::{Verdict, VerdictFile};
use assize_store::StoreError;
use assize_store::embedded::mlflow::Mlflow;
use assize_store::mlflow::LoggedRun;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};

use super::ApiResult;

/// The length of previews, in characters.
const PREVIEW: usize = 1_000;

/// A run as a trace.
pub(super) struct RunTrace {
    run: LoggedRun,
    prompt: String,
    candidates: String,
}

/// The trace of a run; `None` if the run does not exist or has no candidates.
pub(super) fn find(mlflow: Mlflow<'_>, trace_id: &str) -> ApiResult<Option<RunTrace>> {
    let Some(run_id) = trace_id.strip_prefix("tr-") else {
        return Ok(None);
    };
    let run = match mlflow.run_get(run_id) {
        Ok(run) if run.info.lifecycle_stage == "active" && run.info.run_id == run_id => run,
        Ok(_) | Err(StoreError::NotFound(_) | StoreError::NoRun { .. }) => return Ok(None),
        Err(error) => return Err(error.into()),
    };
    let Some(candidates) = mlflow.artifact_text(run_id, artifact::CANDIDATES)? else {
        return Ok(None);
    };
    let prompt = mlflow.artifact_text(run_id, artifact::PROMPT)?;
    Ok(Some(RunTrace {
        run,
        prompt: prompt.unwrap_or_default(),
        candidates,
    }))
}

impl RunTrace {
    pub fn experiment_id(&self) -> &str {
        &self.run.info.experiment_id
    }

    fn trace_id(&self) -> String {
        format!("tr-{}", self.run.info.run_id)
    }

    fn is_finished(&self) -> bool {
        self.run.info.status.as_str() == "FINISHED"
    }

    pub fn info(&self) -> Value {
        let run = &self.run.info;
        let start = jiff::Timestamp::from_millisecond(run.start_time).unwrap_or_default();
        let lasted_ms = run.end_time.map_or(0, |end| end - run.start_time).max(0);
        json!({
            "trace_id": self.trace_id(),
            "trace_location": {
                "type": "MLFLOW_EXPERIMENT",
                "mlflow_experiment": {"experiment_id": run.experiment_id},
            },
            "request_preview": preview(&self.prompt),
            "response_preview": preview(&self.candidates),
            "request_time": format!("{start:.3}"),
            "execution_duration": format!("{}.{:03}s", lasted_ms / 1000, lasted_ms % 1000),
            "state": if self.is_finished() { "OK" } else { "ERROR" },
            "trace_metadata": {"mlflow.sourceRun": run.run_id},
            "tags": {"mlflow.traceName": run.run_name},
        })
    }

    /// The trace's spans, in the format of the client's file.
    pub fn spans(&self, mlflow: Mlflow<'_>) -> ApiResult<Value> {
        let run = &self.run.info;
        let context = mlflow.artifact_text(&run.run_id, artifact::CONTEXT)?;
        let inputs = json!({
            "prompt": self.prompt,
            "context": parsed(&context.unwrap_or_default()),
        });
        let id = sha256(run.run_id.as_bytes());
        let trace = u128::from_str_radix(&run.run_id, 16);
        let trace = trace.map_or_else(|_| id[..16].to_vec(), |it| it.to_be_bytes().to_vec());
        let end_ms = run.end_time.unwrap_or(run.start_time);
        // Every attribute is a string that contains JSON.
        let text = |value: Value| value.to_string();
        Ok(json!({"spans": [{
            "trace_id": STANDARD.encode(trace),
            "span_id": STANDARD.encode(&id[..8]),
            "parent_span_id": null,
            "name": run.run_name,
            "start_time_unix_nano": run.start_time.saturating_mul(1_000_000),
            "end_time_unix_nano": end_ms.saturating_mul(1_000_000),
            "events": [],
            "status": {
                "code": if self.is_finished() { "STATUS_CODE_OK" } else { "STATUS_CODE_ERROR" },
                "message": "",
            },
            "attributes": {
                "mlflow.traceRequestId": text(self.trace_id().into()),
                "mlflow.spanType": text("LLM".into()),
                "mlflow.spanInputs": text(inputs),
                "mlflow.spanOutputs": text(parsed(&self.candidates)),
            },
            "links": [],
        }]}))
    }

    /// All verdicts as assessments.
    pub fn assessments(&self, mlflow: Mlflow<'_>) -> ApiResult<Vec<Value>> {
        let set_aside = self
            .run
            .data
            .tags
            .iter()
            .find(|it| it.key == tag::SET_ASIDE);
        let set_aside = set_aside.map_or("", |it| it.value.as_str());
        let files = mlflow.verdicts_get(&self.run.info.run_id)?;
        let mut assessments = Vec::new();
        for file in &files {
            let counts = !set_aside.split_whitespace().any(|it| it == file.sitting);
            for verdict in &file.verdicts {
                for (name, value) in &verdict.scores {
                    assessments.push(self.of_score(file, verdict, (name, value.clone()), counts));
                }
                let composite = ("composite", json!(verdict.composite));
                assessments.push(self.of_score(file, verdict, composite, counts));
            }
        }
        Ok(assessments)
    }

    fn of_score(
        &self,
        file: &VerdictFile,
        verdict: &Verdict,
        (name, value): (&str, Value),
        counts: bool,
    ) -> Value {
        let is_person = file.tier == Tier::Expert && file.judge.kind == "human";
        let run_id = &self.run.info.run_id;
        let mut assessment = json!({
            // Identifies the verdict.
            "assessment_id": format!("verdict-{run_id}-{}-{}-{name}", file.sitting, verdict.candidate),
            "assessment_name": name,
            "trace_id": self.trace_id(),
            "source": {
                "source_type": if is_person { "HUMAN" } else { "LLM_JUDGE" },
                "source_id": file.judge.name,
            },
            "create_time": file.judged_at,
            "last_update_time": file.judged_at,
            "feedback": {"value": value},
            "metadata": {
                "candidate": verdict.candidate.to_string(),
                "sitting": file.sitting,
                "tier": file.tier.as_str(),
                "judge_kind": file.judge.kind,
                "rubric": file.rubric.id,
                "rubric_sha256": file.rubric.sha256,
            },
            "valid": counts,
        });
        if let Some(rationale) = &verdict.rationale {
            assessment["rationale"] = rationale.clone().into();
        }
        assessment
    }
}

fn preview(text: &str) -> String {
    text.chars().take(PREVIEW).collect()
}

/// Parses JSON; other text becomes a JSON string.
fn parsed(text: &str) -> Value {
    serde_json::from_str(text).unwrap_or_else(|_| text.into())
}

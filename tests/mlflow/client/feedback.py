"""Verdicts are assessments, and feedback can be logged beside them. Takes a judged run's id."""

import sys

import mlflow
from mlflow.entities import AssessmentSource
from mlflow.exceptions import MlflowException

run_id = sys.argv[1]
client = mlflow.MlflowClient()

# A judged run of ours: an ordinary run, with its artifacts, and its verdicts as assessments.
run = mlflow.get_run(run_id)
assert run.data.tags["judge_pending"] == "false" and run.data.metrics["relevance"] == 4
paths = [it.path for it in client.list_artifacts(run_id)]
assert "candidates.json" in paths and "verdicts" in paths, paths
files = client.list_artifacts(run_id, "verdicts")
assert len(files) == 1, files
file = mlflow.artifacts.load_dict(f"runs:/{run_id}/{files[0].path}")
assert file["verdicts"][0]["scores"]["relevance"] == 4, file

store = mlflow.tracking._tracking_service.utils._get_store()
trace_id = f"tr-{run_id}"
assessments = store.get_trace_info(trace_id).assessments
relevance = [it for it in assessments if it.name == "relevance"]
assert len(relevance) == 2, assessments
assert relevance[0].value == 4 and relevance[0].rationale == "because é"
assert relevance[0].source.source_type == "HUMAN" and relevance[0].source.source_id == "ada"
assert relevance[0].metadata["tier"] == "expert"
try:
    mlflow.delete_assessment(trace_id, relevance[0].assessment_id)
    raise AssertionError("a verdict was deleted")
except MlflowException as error:
    assert error.error_code == "INVALID_PARAMETER_VALUE", error

# Feedback on it.
source = AssessmentSource(source_type="HUMAN", source_id="bob")
logged = mlflow.log_feedback(
    trace_id=trace_id, name="liked", value=True, rationale="nice", source=source
)
found = mlflow.get_assessment(trace_id, logged.assessment_id)
assert found.value is True and found.rationale == "nice" and found.source.source_id == "bob"
names = [it.name for it in store.get_trace_info(trace_id).assessments]
assert names.count("liked") == 1 and "composite" in names, names
mlflow.update_assessment(
    trace_id, logged.assessment_id, mlflow.entities.Feedback(name="liked", value=False)
)
assert mlflow.get_assessment(trace_id, logged.assessment_id).value is False
mlflow.delete_assessment(trace_id, logged.assessment_id)
assert mlflow.get_run(run_id).data.metrics["relevance"] == 4, "feedback is no verdict"

# A trace of somebody else's.
mlflow.set_experiment("traced")
with mlflow.start_span(name="work") as span:
    span.set_inputs({"question": "?"})
    span.set_outputs({"answer": "!"})
mlflow.flush_trace_async_logging()
mine = mlflow.get_last_active_trace_id()
info = store.get_trace_info(mine)
assert info.trace_id == mine and info.state == "OK", info
mlflow.log_feedback(trace_id=mine, name="good", value=5, source=source)
mlflow.log_expectation(trace_id=mine, name="expected", value="yes", source=source)
assert [it.name for it in store.get_trace_info(mine).assessments] == ["good", "expected"]
client.set_trace_tag(mine, "seen", "yes")
assert store.get_trace_info(mine).tags["seen"] == "yes"
print("feedback: fine")

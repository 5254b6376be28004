"""Traces: what the client logs is read back identical; a judged run is a trace. Takes its id."""

import os
import sys

import mlflow
import requests
from mlflow.entities import AssessmentSource, Expectation, SpanType
from mlflow.exceptions import MlflowException

run_id = sys.argv[1]
client = mlflow.MlflowClient()


def spans(trace):
    return sorted((span.to_dict() for span in trace.data.spans), key=lambda it: it["span_id"])


def refused(call, code):
    try:
        call()
    except MlflowException as error:
        assert error.error_code == code, error
        return str(error)
    raise AssertionError("nothing was refused")


# A judged run of ours.
trace = mlflow.get_trace(f"tr-{run_id}")
assert trace is not None and trace.info.trace_id == f"tr-{run_id}", trace
assert trace.info.state == "OK" and trace.info.request_preview, trace.info
[span] = trace.data.spans
assert span.trace_id == f"tr-{run_id}" and span.parent_id is None, span
assert [it["text"] for it in span.outputs] == ["A tip.", "Another."], span.outputs
assert span.inputs["prompt"] and span.inputs["context"], span.inputs
scores = [it for it in trace.info.assessments if it.name == "relevance"]
assert [it.value for it in scores] == [4, 4] and scores[0].rationale == "because é", scores
assert scores[0].source.source_id == "ada" and scores[0].valid, scores
assert client.get_trace(f"tr-{run_id}").to_dict() == trace.to_dict()
assert mlflow.get_trace(f"tr-{'0' * 32}") is None
refused(lambda: client.get_trace(f"tr-{'0' * 32}"), "RESOURCE_DOES_NOT_EXIST")

# It is found by its experiment, by its run and by its verdicts.
experiment = mlflow.get_run(run_id).info.experiment_id


def found(**more):
    more.setdefault("locations", [experiment])
    return mlflow.search_traces(return_type="list", **more)


assert [it.info.trace_id for it in found()] == [f"tr-{run_id}"]
assert found()[0].to_dict() == trace.to_dict()
assert len(found(run_id=run_id)) == 1 and len(found(filter_string="feedback.tone > 3")) == 1
assert found(filter_string="feedback.tone > 4") == []
assert list(mlflow.search_traces(locations=[experiment]).trace_id) == [f"tr-{run_id}"]


# Somebody's own traces: nested spans, events, errors, odd texts.
mlflow.set_experiment("traced")
traced = mlflow.get_experiment_by_name("traced").experiment_id


@mlflow.trace(span_type=SpanType.TOOL, attributes={"grüße": "\"'/\n☃"})
def inner(text):
    return {"echo": text, "number": 1.5, "list": [1, None, True]}


@mlflow.trace
def outer(text):
    return inner(text)


with mlflow.start_run() as run:
    outer("Ünï ☃ \U0001f600 'quotes' \"double\" \\ \x01 \n")
mine = mlflow.get_last_active_trace_id()
mlflow.flush_trace_async_logging()
logged = mlflow.get_trace(mine)
assert len(logged.data.spans) == 2, logged
root, child = logged.data.spans
assert root.name == "outer" and child.parent_id == root.span_id
assert root.inputs == {"text": "Ünï ☃ \U0001f600 'quotes' \"double\" \\ \x01 \n"}
assert root.outputs == child.outputs and child.span_type == "TOOL", child
assert child.get_attribute("grüße") == "\"'/\n☃"
assert logged.info.trace_metadata["mlflow.sourceRun"] == run.info.run_id
assert [it.info.trace_id for it in found(locations=[traced], run_id=run.info.run_id)] == [mine]

# Read back as it was in memory.
with mlflow.start_span("by hand") as span:
    span.set_inputs({"question": "?"})
    span.add_event(mlflow.entities.SpanEvent("looked", attributes={"at": "it"}))
    with mlflow.start_span("below") as below:
        below.set_outputs("☃" * 1000)
    span.set_outputs({"answer": "!"})
    mlflow.update_current_trace(tags={"stage": "try/1"}, client_request_id="req 1")
hand = span.trace_id
mlflow.flush_trace_async_logging()
back = client.get_trace(hand)
expected = sorted((it.to_immutable_span().to_dict() for it in (span, below)), key=lambda it: it["span_id"])
assert spans(back) == expected, (spans(back), expected)
assert back.info.tags["stage"] == "try/1" and back.info.client_request_id == "req 1", back.info

# A function that fails.
@mlflow.trace
def fails():
    raise ValueError("no ☃")


try:
    fails()
except ValueError:
    pass
failed = mlflow.get_last_active_trace_id()
mlflow.flush_trace_async_logging()
error = mlflow.get_trace(failed)
assert error.info.state == "ERROR" and error.data.spans[0].status.status_code == "ERROR", error

# Searching them: the latest first, in pages, by what is known of them.
mlflow.log_feedback(
    trace_id=hand, name="liked", value=True, source=AssessmentSource("HUMAN", "bob")
)
mlflow.log_expectation(trace_id=hand, name="says", value="!")
# What would make a page of them unreadable is refused.
liked = mlflow.log_feedback(trace_id=hand, name="odd", value=1)
swapped = Expectation(name="odd", value="x")
refused(lambda: mlflow.update_assessment(hand, liked.assessment_id, swapped), "INVALID_PARAMETER_VALUE")
mlflow.delete_assessment(trace_id=hand, assessment_id=liked.assessment_id)
refused(
    lambda: mlflow.override_feedback(
        trace_id=f"tr-{run_id}", assessment_id=scores[0].assessment_id, value=1
    ),
    "INVALID_PARAMETER_VALUE",
)
for odd in [{"metadata": {"a": 1}}, {"create_time": "garbage"}, {"rationale": 5}, {"valid": "no"}]:
    assessment = {"assessment_name": "odd", "feedback": {"value": 1}, **odd}
    answer = requests.post(
        f"{mlflow.get_tracking_uri()}/api/3.0/mlflow/traces/{hand}/assessments",
        json={"trace_id": hand, "assessment": assessment},
        headers={"Authorization": f"Bearer {os.environ['MLFLOW_TRACKING_TOKEN']}"},
    )
    assert answer.status_code == 400, (odd, answer.text)
ids = [it.info.trace_id for it in found(locations=[traced])]
assert ids == [failed, hand, mine], ids
for filter_string, expected in [
    ("trace.status = 'ERROR'", [failed]),
    ("attributes.name = 'by hand'", [hand]),
    ("tags.stage LIKE 'try/%'", [hand]),
    ("feedback.liked = 'true'", [hand]),
    ("expectation.says = '!'", [hand]),
    (f"request_id IN ('{hand}', '{mine}')", [hand, mine]),
    (f"timestamp_ms > {error.info.request_time}", []),
]:
    got = [it.info.trace_id for it in found(locations=[traced], filter_string=filter_string)]
    assert got == expected, (filter_string, got)
oldest = found(locations=[traced], order_by=["timestamp_ms ASC"])
assert [it.info.trace_id for it in oldest] == [mine, hand, failed]
first = client.search_traces(locations=[traced], max_results=2)
rest = client.search_traces(locations=[traced], max_results=2, page_token=first.token)
assert [it.info.trace_id for it in [*first, *rest]] == ids and not rest.token
several = client._tracing_client.batch_get_traces([hand, mine])
assert {it.info.trace_id: spans(it) for it in several} == {hand: spans(back), mine: spans(logged)}

# Links to runs and prompts; deleting. The trace of a collected run is part of its run.
assert [it.info.trace_id for it in found(locations=[traced], filter_string="prompt = 'p/1'")] == []
client.link_traces_to_run([hand], run_id)
got = found(locations=[traced], filter_string=f"run_id = '{run_id}'")
assert [it.info.trace_id for it in got] == [hand], got
assert client.delete_traces(traced, trace_ids=[hand, f"tr-{run_id}"]) == 1
assert [it.info.trace_id for it in found(locations=[traced])] == [failed, mine]
assert mlflow.get_trace(f"tr-{run_id}") is not None

# Unsupported filters are reported.
words = refused(
    lambda: client.search_traces(locations=[traced], filter_string="span.name = 'below'"),
    "NOT_IMPLEMENTED",
)
assert "not supported" in words, words
print("traces: fine")

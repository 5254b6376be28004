"""Unusual keys and values, limits, large files, unusual file names, and concurrent writers."""

import math
import os
import tempfile
import threading

import mlflow
from mlflow.entities import Metric, Param, RunTag
from mlflow.exceptions import MlflowException

client = mlflow.MlflowClient()
TEXTS = [
    "",
    " ",
    "Grüße, 日本語, العربية, \U0001f600\U0001f469‍\U0001f469‍\U0001f467",
    "'single' \"double\" `back`",
    "a/b\\c//d/../e",
    "line\nline\r\n\ttab\u2028end",
    "%s %% {} {{ }} <b>&amp;</b> '; DROP TABLE runs; --",
    "\u0001\u001f\u007f\ufeff\ufffe",
    "e\u0301 is not \u00e9",
]
KEYS = ["Grüße", "日本", "a b", "a.b-c_d", "a/b/c", "x:y"]


def refused(call, code="INVALID_PARAMETER_VALUE"):
    try:
        call()
    except MlflowException as error:
        assert error.error_code == code, error
        return
    raise AssertionError("nothing was refused")


# Keys and values.
mlflow.set_experiment("odd Ünï / 'names' \"\U0001f600\"")
with mlflow.start_run(run_name="Lauf ☃ '\"/\n") as run:
    for number, text in enumerate(TEXTS):
        mlflow.log_param(f"p{number}", text)
        mlflow.set_tag(f"t{number}", text)
    for key in KEYS:
        mlflow.log_param(key, key)
        mlflow.set_tag(key, key)
        mlflow.log_metric(key, 1)
run_id = run.info.run_id
data = client.get_run(run_id).data
for number, text in enumerate(TEXTS):
    assert data.params[f"p{number}"] == text, (text, data.params[f"p{number}"])
    assert data.tags[f"t{number}"] == text, (text, data.tags[f"t{number}"])
for key in KEYS:
    assert data.params[key] == data.tags[key] == key and data.metrics[key] == 1, key
assert client.get_run(run_id).info.run_name == "Lauf ☃ '\"/\n"
[found] = client.search_runs([run.info.experiment_id], "params.`Grüße` = 'Grüße'")
assert found.info.run_id == run_id and found.data.to_dictionary() == data.to_dictionary()
name = client.get_experiment(run.info.experiment_id).name
assert client.get_experiment_by_name(name).experiment_id == run.info.experiment_id

# Limits: what fits comes back whole, what does not is refused and leaves nothing.
run_id = client.create_run("0").info.run_id
for char in ["x", "é", "\U0001f600"]:
    client.log_batch(run_id, params=[Param(f"p{ord(char)}", char * 6000)])
    client.log_batch(run_id, tags=[RunTag(f"t{ord(char)}", char * 8000)])
    long = [Metric("m", 1, 0, 0)], [Param("long", char * 6001)], [RunTag("t", "v")]
    refused(lambda: client.log_batch(run_id, *long))
    refused(lambda: client.log_batch(run_id, tags=[RunTag("ok", "v"), RunTag("long", char * 8001)]))
data = client.get_run(run_id).data
assert {it: len(value) for it, value in data.params.items()} == {
    "p120": 6000, "p233": 6000, "p128512": 6000
}, data.params.keys()
assert data.params["p128512"] == "\U0001f600" * 6000 and data.tags["t233"] == "é" * 8000
assert "long" not in data.tags and "ok" not in data.tags and data.metrics == {}

# Numbers.
values = {
    "nan": math.nan, "inf": math.inf, "-inf": -math.inf, "zero": -0.0, "large": 1e308,
    "small": 5e-324, "third": 1 / 3, "whole": 2**53 + 2,
}
for key, value in values.items():
    client.log_metric(run_id, key, value, timestamp=1, step=-(2**40))
metrics = client.get_run(run_id).data.metrics
for key, expected in values.items():
    [point] = client.get_metric_history(run_id, key)
    for got in [metrics[key], point.value]:
        assert got == expected or math.isnan(got) and math.isnan(expected), (key, got)
    assert (point.timestamp, point.step) == (1, -(2**40)), point

# Files.
with tempfile.TemporaryDirectory() as folder:
    large = os.urandom(10 << 20)
    # The client itself cuts names at `#` and `?`, and takes `%20` for a space.
    names = {
        "ten MiB.bin": large, "Grüße-日本-\U0001f600.txt": b"text", "'quotes\"`.txt": b"",
        "100%": b"percent", "a&b=c;d+e,f@g!.txt": b"signs", "sub folder/ü $1/x.y": b"deep",
        "e\u0301": b"combined",
    }
    for name, content in names.items():
        os.makedirs(os.path.dirname(os.path.join(folder, name)), exist_ok=True)
        with open(os.path.join(folder, name), "wb") as file:
            file.write(content)
    client.log_artifacts(run_id, folder, "all/of them")


def listed(path):
    for it in client.list_artifacts(run_id, path):
        yield from listed(it.path) if it.is_dir else [it.path]


expected = sorted(f"all/of them/{it}" for it in names)
assert sorted(listed(None)) == expected, sorted(listed(None))
with tempfile.TemporaryDirectory() as folder:
    whole = client.download_artifacts(run_id, "all", folder)
    for name, content in names.items():
        with open(os.path.join(whole, "of them", name), "rb") as file:
            assert file.read() == content, name
    for name in ["a&b=c;d+e,f@g!.txt", "100%", "e\u0301"]:
        one = client.download_artifacts(run_id, f"all/of them/{name}", folder)
        with open(one, "rb") as file:
            assert file.read() == names[name], name

# Eight writers on one run: nothing is lost.
run_id = client.create_run("0").info.run_id
WRITERS, BATCHES, POINTS = 8, 12, 20
failures = []


def write(writer):
    try:
        mine = mlflow.MlflowClient()
        for batch in range(BATCHES):
            steps = range(batch * POINTS, (batch + 1) * POINTS)
            metrics = [Metric(f"own {writer}", step, 1000 + step, step) for step in steps]
            metrics += [Metric("shared", step * 10 + writer, 1000 + step, step) for step in steps]
            params = [Param(f"{writer}.{batch}", "v"), Param("same", "for all")]
            mine.log_batch(run_id, metrics, params, [RunTag(f"{writer}.{batch}", "v"), RunTag("last", str(writer))])
    except BaseException as error:
        failures.append(error)


threads = [threading.Thread(target=write, args=[it]) for it in range(WRITERS)]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
assert not failures, failures
data = client.get_run(run_id).data
assert len(data.params) == WRITERS * BATCHES + 1 and data.params["same"] == "for all"
assert sum(key[0].isdigit() for key in data.tags) == WRITERS * BATCHES, data.tags
assert data.tags["last"] in {str(it) for it in range(WRITERS)}
total = BATCHES * POINTS
for writer in range(WRITERS):
    history = client.get_metric_history(run_id, f"own {writer}")
    assert [it.step for it in history] == list(range(total)), writer
    assert data.metrics[f"own {writer}"] == total - 1
shared = client.get_metric_history(run_id, "shared")
assert len(shared) == WRITERS * total, len(shared)
assert {it.value for it in shared} == {s * 10 + w for s in range(total) for w in range(WRITERS)}
assert data.metrics["shared"] == (total - 1) * 10 + WRITERS - 1, "the greatest of the last step"
print("nasty: fine")

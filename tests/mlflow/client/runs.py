"""What a notebook does with MLflow's client: experiments, runs, metrics, tags, search, artifacts."""

import math
import os
import tempfile

import mlflow
from mlflow.entities import Metric, Param, RunTag
from mlflow.exceptions import MlflowException


def refused(code, call):
    try:
        call()
    except MlflowException as error:
        assert error.error_code == code, (error.error_code, error.message)
        return error.message
    raise AssertionError(f"not refused with {code}")


client = mlflow.MlflowClient()

# Experiments.
experiment = mlflow.set_experiment("notebook")
assert mlflow.set_experiment("notebook").experiment_id == experiment.experiment_id
assert mlflow.get_experiment("0").name == "Default"
refused("RESOURCE_ALREADY_EXISTS", lambda: client.create_experiment("notebook"))
other = client.create_experiment("other", tags={"team": "x"})
client.set_experiment_tag(other, "stage", "new")
assert client.get_experiment(other).tags == {"team": "x", "stage": "new"}
client.rename_experiment(other, "another")
found = mlflow.search_experiments(filter_string="name LIKE 'ano%' AND tags.team = 'x'")
assert [it.name for it in found] == ["another"], found
client.delete_experiment(other)
refused("RESOURCE_DOES_NOT_EXIST", lambda: client.delete_experiment(other))
refused("INVALID_PARAMETER_VALUE", lambda: client.create_run(other))
client.restore_experiment(other)
names = {it.name for it in mlflow.search_experiments()}
assert names == {"Default", "notebook", "another"}, names

# A run.
with mlflow.start_run(run_name="first", tags={"color": "blue"}) as run:
    mlflow.log_param("lr", 0.1)
    mlflow.log_params({"depth": 3, "kind": "tree é"})
    for step in range(5):
        mlflow.log_metric("loss", 1.0 / (step + 1), step=step)
    mlflow.log_metrics({"acc": 0.75, "nan": math.nan, "inf": math.inf})
    mlflow.set_tag("note", "a\nb")
    mlflow.log_text("hello é\n", "notes/hello.txt")
    mlflow.log_dict({"a": [1, 2]}, "table.json")
    with tempfile.TemporaryDirectory() as folder:
        for name in ["x.bin", "deep/y.bin"]:
            path = os.path.join(folder, name)
            os.makedirs(os.path.dirname(path), exist_ok=True)
            with open(path, "wb") as file:
                file.write(bytes(range(256)) * 5000)
        mlflow.log_artifacts(folder, "folder")
run_id = run.info.run_id
run = mlflow.get_run(run_id)
assert run.info.status == "FINISHED" and run.info.run_name == "first", run.info
assert run.info.end_time >= run.info.start_time
assert run.data.params == {"lr": "0.1", "depth": "3", "kind": "tree é"}, run.data.params
assert run.data.metrics["acc"] == 0.75 and run.data.metrics["loss"] == 0.2
assert math.isnan(run.data.metrics["nan"]) and run.data.metrics["inf"] == math.inf
assert run.data.tags["color"] == "blue" and run.data.tags["note"] == "a\nb"
assert run.data.tags["mlflow.runName"] == "first"
history = client.get_metric_history(run_id, "loss")
assert [it.step for it in history] == [0, 1, 2, 3, 4], history
assert [it.value for it in history] == [1.0, 0.5, 1 / 3, 0.25, 0.2]

# Artifacts.
assert mlflow.artifacts.load_text(f"runs:/{run_id}/notes/hello.txt") == "hello é\n"
assert mlflow.artifacts.load_dict(f"runs:/{run_id}/table.json") == {"a": [1, 2]}
listed = {it.path: it.is_dir for it in client.list_artifacts(run_id)}
assert listed == {"notes": True, "table.json": False, "folder": True}, listed
deep = [(it.path, it.file_size) for it in client.list_artifacts(run_id, "folder/deep")]
assert deep == [("folder/deep/y.bin", 1_280_000)], deep
with tempfile.TemporaryDirectory() as folder:
    path = client.download_artifacts(run_id, "folder", folder)
    with open(os.path.join(path, "deep/y.bin"), "rb") as file:
        assert file.read() == bytes(range(256)) * 5000

# What is written once, twice and in one go.
client.log_param(run_id, "lr", "0.1")
refused("INVALID_PARAMETER_VALUE", lambda: client.log_param(run_id, "lr", "0.2"))
batch = dict(
    metrics=[Metric("m", 1.5, 10, 0)],
    params=[Param("fresh", "1"), Param("lr", "9")],
    tags=[RunTag("t", "1")],
)
refused("INVALID_PARAMETER_VALUE", lambda: client.log_batch(run_id, **batch))
after = client.get_run(run_id)
assert "fresh" not in after.data.params and "m" not in after.data.metrics
assert "t" not in after.data.tags
client.log_batch(run_id, [Metric("m", 1.5, 10, 0)] * 2, [Param("fresh", "1")], [RunTag("t", "1")])
assert len(client.get_metric_history(run_id, "m")) == 1
client.delete_tag(run_id, "t")
refused("RESOURCE_DOES_NOT_EXIST", lambda: client.delete_tag(run_id, "t"))
client.set_tag(run_id, "mlflow.runName", "renamed")
assert client.get_run(run_id).info.run_name == "renamed"
client.update_run(run_id, name="again")
assert client.get_run(run_id).data.tags["mlflow.runName"] == "again"

# Deleting and restoring.
client.delete_run(run_id)
client.delete_run(run_id)
assert client.get_run(run_id).info.lifecycle_stage == "deleted"
refused("INVALID_PARAMETER_VALUE", lambda: client.set_tag(run_id, "a", "b"))
assert mlflow.search_runs([experiment.experiment_id]).empty
client.restore_run(run_id)

# Search as pandas, over several pages.
for number in range(25):
    with mlflow.start_run():
        mlflow.log_metric("score", number)
        mlflow.log_param("parity", "odd" if number % 2 else "even")
frame = mlflow.search_runs(
    experiment_names=["notebook"],
    filter_string="params.parity = 'odd' AND metrics.score > 3",
    order_by=["metrics.score DESC"],
)
assert list(frame["metrics.score"]) == list(range(23, 3, -2)), frame
first = client.search_runs([experiment.experiment_id], max_results=20)
assert len(first) == 20 and first.token
rest = client.search_runs([experiment.experiment_id], max_results=20, page_token=first.token)
assert len(rest) == 6 and not rest.token, (len(rest), rest.token)

# A dataset.
with mlflow.start_run() as run:
    import pandas

    dataset = mlflow.data.from_pandas(pandas.DataFrame({"a": [1, 2]}), name="small")
    mlflow.log_input(dataset, context="training")
    # A second time is no other input, and the first stands.
    mlflow.log_input(dataset, context="evaluation")
    mlflow.log_metric("of_data", 1.0, dataset=dataset)
run = mlflow.get_run(run.info.run_id)
assert run.inputs.dataset_inputs[0].dataset.name == "small"
assert run.inputs.dataset_inputs[0].dataset.digest == dataset.digest
found = mlflow.search_runs(experiment_names=["notebook"], filter_string="dataset.context = 'training'")
assert list(found["run_id"]) == [run.info.run_id]
print("runs: fine")

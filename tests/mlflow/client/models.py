"""Logged models, and autologging of a small scikit-learn fit."""

import math

import mlflow
import numpy
from mlflow.entities import LoggedModelInput, LoggedModelOutput, Metric
from mlflow.exceptions import MlflowException
from sklearn.linear_model import LogisticRegression


def refused(code, call):
    try:
        call()
    except MlflowException as error:
        assert error.error_code == code, (error.error_code, error.message)
        return error.message
    raise AssertionError(f"not refused with {code}")


client = mlflow.MlflowClient()
experiment = mlflow.set_experiment("fits")

# Autologging: params, metrics, a dataset, a logged model with its files.
mlflow.sklearn.autolog()
random = numpy.random.default_rng(7)
points = random.normal(size=(80, 3))
labels = (points[:, 0] + points[:, 1] > 0).astype(int)
with mlflow.start_run() as active:
    fitted = LogisticRegression(C=0.5).fit(points, labels)
    accuracy = fitted.score(points, labels)
mlflow.sklearn.autolog(disable=True)
run = mlflow.get_run(active.info.run_id)
assert run.data.params["C"] == "0.5", run.data.params
assert run.data.metrics["training_accuracy_score"] == accuracy, run.data.metrics
assert run.data.tags["estimator_name"] == "LogisticRegression"
assert run.inputs.dataset_inputs, run.inputs
assert len(run.outputs.model_outputs) == 1, run.outputs
model_id = run.outputs.model_outputs[0].model_id
frame = mlflow.search_runs(filter_string="params.C = '0.5' AND metrics.training_score > 0.5")
assert list(frame["run_id"]) == [run.info.run_id], frame

model = mlflow.get_logged_model(model_id)
assert model.status == "READY" and model.source_run_id == run.info.run_id, model
assert model.params["C"] == "0.5", model.params
assert model.artifact_location.endswith(f"/models/{model_id}/artifacts")
metrics = {it.key: it for it in model.metrics}
assert metrics["training_accuracy_score"].value == accuracy, metrics
assert metrics["training_accuracy_score"].run_id == run.info.run_id
assert metrics["training_accuracy_score"].dataset_digest == run.inputs.dataset_inputs[0].dataset.digest
names = {it.path for it in client.list_logged_model_artifacts(model_id)}
assert {"MLmodel", "requirements.txt"} <= names, names
loaded = mlflow.sklearn.load_model(f"models:/{model_id}")
assert (loaded.predict(points) == fitted.predict(points)).all()
loaded = mlflow.pyfunc.load_model(f"runs:/{run.info.run_id}/model")
assert (loaded.predict(points) == fitted.predict(points)).all()

# Registering it.
version = mlflow.register_model(f"models:/{model_id}", "classifier")
assert version.version == "1" and version.run_id == run.info.run_id, version
client.set_registered_model_alias("classifier", "good", "1")
loaded = mlflow.sklearn.load_model("models:/classifier@good")
assert loaded.get_params()["C"] == 0.5

# By hand.
made = mlflow.create_external_model(
    name="by hand",
    model_type="agent",
    params={f"p{number}": str(number) for number in range(250)},
    tags={"color": "blue"},
)
assert made.status == "READY" and made.params["p249"] == "249" and len(made.params) == 250
pending = mlflow.initialize_logged_model(name="pending", tags={"color": "red"})
assert pending.status == "PENDING"
assert mlflow.finalize_logged_model(pending.model_id, "FAILED").status == "FAILED"
mlflow.set_logged_model_tags(made.model_id, {"é": "ü", "color": "green"})
assert mlflow.get_logged_model(made.model_id).tags["color"] == "green"
mlflow.delete_logged_model_tag(made.model_id, "é")
assert "é" not in mlflow.get_logged_model(made.model_id).tags
refused("RESOURCE_DOES_NOT_EXIST", lambda: mlflow.delete_logged_model_tag(made.model_id, "é"))
refused("RESOURCE_DOES_NOT_EXIST", lambda: mlflow.get_logged_model("m-" + "0" * 32))
refused("INVALID_PARAMETER_VALUE", lambda: mlflow.initialize_logged_model(name="a/b"))
with mlflow.start_run() as active:
    client.log_inputs(active.info.run_id, models=[LoggedModelInput(made.model_id)])
    client.log_outputs(active.info.run_id, [LoggedModelOutput(pending.model_id, step=7)])
    mlflow.log_metric("quality", 0.9, model_id=made.model_id)
    mlflow.log_metric("quality", math.nan, model_id=pending.model_id)
run = mlflow.get_run(active.info.run_id)
assert made.model_id in {it.model_id for it in run.inputs.model_inputs}
assert [(it.model_id, it.step) for it in run.outputs.model_outputs] == [(pending.model_id, 7)]
assert mlflow.get_logged_model(made.model_id).metrics[0].value == 0.9
assert math.isnan(mlflow.get_logged_model(pending.model_id).metrics[0].value)
unknown = Metric("quality", 1.0, 1, 0, model_id="m-" + "0" * 32)
refused("RESOURCE_DOES_NOT_EXIST", lambda: client.log_batch(run.info.run_id, metrics=[unknown]))


def found(filter_string=None, **more):
    models = mlflow.search_logged_models(
        [experiment.experiment_id], filter_string, output_format="list", **more
    )
    return [it.model_id for it in models]


assert set(found()) == {model_id, made.model_id, pending.model_id}
assert found("tags.color = 'red'") == [pending.model_id]
assert found("metrics.quality > 0.5 AND name = 'by hand'") == [made.model_id]
assert found("params.C = '0.5'") == [model_id]
assert found("model_id IN ('x', '%s')" % made.model_id) == [made.model_id]
by_metric = [{"field_name": "metrics.quality", "ascending": False}]
assert found(order_by=by_metric) == [made.model_id, pending.model_id, model_id]
assert found(order_by=[{"field_name": "name", "ascending": True}])[0] == made.model_id
dataset = mlflow.get_run(mlflow.get_logged_model(model_id).source_run_id).inputs.dataset_inputs[0]
name = dataset.dataset.name
assert found(datasets=[{"dataset_name": name}]) == [model_id]
assert len(found(max_results=1)) == 1
client.delete_logged_model(made.model_id)
refused("RESOURCE_DOES_NOT_EXIST", lambda: mlflow.get_logged_model(made.model_id))
assert made.model_id not in found()
print("models: fine")

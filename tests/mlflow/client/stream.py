"""Logs batches to a run until the server is unreachable, and prints each accepted number."""

import sys

import mlflow
from mlflow.entities import Metric, Param, RunTag
from mlflow.exceptions import MlflowException

client = mlflow.MlflowClient()
run_id = client.create_run("0").info.run_id
print(run_id, flush=True)
for number in range(1_000_000):
    metrics = [Metric(f"m{it}", number, number, number) for it in range(20)]
    params = [Param(f"p{number}.{it}", "v" * 200) for it in range(5)]
    tags = [RunTag("last", str(number)), RunTag(f"t{number}", "v")]
    try:
        client.log_batch(run_id, metrics, params, tags)
    except MlflowException:
        sys.exit(0)
    print(number, flush=True)

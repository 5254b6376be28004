"""A real Ray cluster of two nodes runs a grid of 96 cells; one worker is killed in the middle. The
result equals that of a single process, cell for cell."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import threading
import time
from pathlib import Path
from typing import Any

import pytest
import ray
from ray.cluster_utils import Cluster

from assize_ray import driver

BINARY = os.environ.get("ASSIZE_BIN") or "assize"
MODELS = ["a", "b", "c", "d"]
CELLS = 96  # 4 models, the built-in task's 3 prompts and 8 scenarios


def script() -> dict[str, Any]:
    def answers(model: str) -> dict[str, Any]:
        texts = [f"{model} says: walk now.", f"{model} says: drink some water."]
        response = {"prompt": "*", "scenario": "*", "texts": texts, "latency_ms": 100}
        return {"parameter_count": 500_000_000, "responses": [response]}

    return {"models": {it: answers(it) for it in MODELS}}


class Tracking:
    """A running `assize serve`, as the tracking server of all nodes."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        words = [BINARY, "serve", "--port", "0", "--json"]
        self.process = subprocess.Popen(words, cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
        assert self.process.stdout is not None
        announced = json.loads(self.process.stdout.readline())
        self.url, self.token = announced["url"], announced["token"]

    def run(self, *words: str) -> str:
        variables = os.environ | {"MLFLOW_TRACKING_TOKEN": self.token}
        command = [BINARY, "--tracking-uri", self.url, *words]
        return subprocess.run(command, cwd=self.folder, env=variables, capture_output=True, text=True, check=True).stdout

    def cells(self, experiment: str) -> dict[tuple[str, int], Any]:
        """What was generated, by cell key and index of the candidate."""
        lines = self.run("runs", "export", "--experiment", experiment).splitlines()
        records = [json.loads(it) for it in lines]
        return {(it["tags"]["cell_key"], it["candidate"]["index"]): comparable(it) for it in records}


def comparable(record: dict[str, Any]) -> Any:
    """A candidate and its run without what differs between any two runs: ids, times, measured
    speeds, and how the grid was cut."""
    params = {key: value for key, value in record["params"].items() if key not in ("experiment", "shard")}
    tags = {key: value for key, value in record["tags"].items() if not key.startswith("mlflow.")}
    counts = ("n_candidates", "n_failed", "prompt_tokens", "completion_tokens")
    metrics = {key: record["metrics"].get(key) for key in counts}
    candidate = {key: value for key, value in record["candidate"].items() if key != "latency_ms"}
    return record["name"], record["status"], params, tags, metrics, candidate


@pytest.fixture
def tracking(tmp_path: Path):
    server = Tracking(tmp_path)
    yield server
    server.process.terminate()
    server.process.wait()


@pytest.fixture
def cluster(tmp_path: Path, tracking: Tracking, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("ASSIZE_BIN", BINARY)
    monkeypatch.setenv("ASSIZE_HOME", str(tmp_path / "worker"))
    monkeypatch.setenv("MLFLOW_TRACKING_URI", tracking.url)
    monkeypatch.setenv("MLFLOW_TRACKING_TOKEN", tracking.token)
    monkeypatch.setenv("PYTHONPATH", str(Path(driver.__file__).parent.parent))
    head = {"num_cpus": 2, "resources": {"gpu_host_a": 1}, "include_dashboard": False}
    cluster = Cluster(initialize_head=True, head_node_args=head)
    cluster.add_node(num_cpus=2, resources={"gpu_host_b": 1})
    cluster.wait_for_nodes()
    ray.init(address=cluster.address, log_to_driver=False)
    yield cluster
    ray.shutdown()
    cluster.shutdown()


def kill_one(run: driver.Driver, killed: list[int]) -> None:
    """Kills the worker of the first shard when a part of its cells is settled."""
    while not killed:
        cells, workers = ray.get(run.ledger.read.remote())
        if len(cells) >= 10 and 1 in workers and 1 not in run.results:
            os.kill(workers[1], signal.SIGKILL)
            killed.append(workers[1])
        time.sleep(0.05)


def test_the_result_is_that_of_one_process(tracking: Tracking, cluster: Cluster, tmp_path: Path) -> None:
    file = tmp_path / "script.json"
    file.write_text(json.dumps(script()))
    words = [f"--models={','.join(f'scripted:{it}' for it in MODELS)}", f"--script={file}", "--n-tips=2"]
    tracking.run("collect", *words, "--experiment", "single", "--json")
    hosts = driver.hosts_from(["gpu_host_a", "gpu_host_b"])
    run = driver.Driver([*words, "--experiment=spread", f"--tracking-uri={tracking.url}"], 4, hosts)
    killed: list[int] = []
    thread = threading.Thread(target=kill_one, args=(run, killed), daemon=True)
    thread.start()
    code, summary = run.run()
    thread.join(timeout=10)
    assert killed, "no worker was killed"
    assert code == 0, run.results
    expected = {"cells": CELLS, "failed": 0, "lost_workers": 1}
    assert {key: summary[key] for key in expected} == expected, summary
    # The worker may die after it has recorded a cell and before it says so: then its shard finds the cell there.
    assert summary["collected"] + summary["skipped"] == CELLS, summary
    assert summary["skipped"] <= 1, summary
    single, spread = tracking.cells("single"), tracking.cells("spread")
    assert len(single) == 2 * CELLS
    assert spread == single
    listed = json.loads(tracking.run("experiments", "list", "--json"))["experiments"]
    assert {it["name"]: it["runs"] for it in listed} == {"single": CELLS, "spread": CELLS}
    # Again: everything is there.
    again = driver.Driver([*words, "--experiment=spread", f"--tracking-uri={tracking.url}"], 4, hosts)
    code, summary = again.run()
    assert (code, summary["collected"], summary["skipped"]) == (0, 0, CELLS)


def test_a_failed_model_and_a_missing_resource_are_reported(tracking, cluster, tmp_path, capsys) -> None:
    broken = script()
    broken["models"]["a"]["responses"][0]["error"] = "http_500"
    file = tmp_path / "broken.json"
    file.write_text(json.dumps(broken))
    words = ["--models=scripted:a,scripted:b", f"--script={file}", "--prompts=v1", "--n-scenarios=2", "--n-tips=1", "--retries=0"]
    words += ["--experiment=broken", f"--tracking-uri={tracking.url}"]
    code, summary = driver.Driver(words, 2, driver.hosts_from(["gpu_host_a", "gpu_host_b"])).run()
    assert (code, summary["collected"], summary["failed"]) == (4, 2, 2)
    code, _ = driver.Driver(words, 2, driver.hosts_from(["nowhere"])).run()
    assert code == 2
    assert "no node of the cluster has the resource nowhere" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--", "--shard=1/2"], "--shard=1/2 cannot be used here"),
        (["--", "--tracking-uri=sqlite:x.db"], "shards of several nodes meet in a tracking server"),
    ],
)
def test_bad_usage_is_named(words, message, capsys) -> None:
    assert driver.main(words) == 2
    assert message in capsys.readouterr().err

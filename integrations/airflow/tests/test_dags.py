"""The DAGs under `airflow dags test`, with the real binary and `assize serve` as tracking server."""

from __future__ import annotations

import json
import subprocess
import sys
import time
import tomllib

import pytest
from conftest import PACKAGE, Airflow


def test_a_failed_model_fails_the_run_and_keeps_the_others(airflow: Airflow) -> None:
    conf = airflow.conf(
        models="scripted:a,scripted:broken", experiment="one-fails", judge_mode="auto", judge="scripted:judge"
    )
    code, log = airflow.test("bench_collect", conf)
    assert code == 1, log
    assert "scripted:broken failed on local: 2 of 2 cells failed" in log
    assert "First reason: scripted:broken refused the request with HTTP 500" in log
    board = airflow.tracking.json("compare", "--experiment", "one-fails", "--json")
    assert [it["model"] for it in board["rows"]] == ["scripted:a"]
    assert board["coverage"] == {"cells": 4, "judged": 2, "pending": 0, "failed": 2}


def test_lists_shards_and_two_hosts(airflow: Airflow) -> None:
    folder = airflow.home / "exports"
    hosts = "x=http://127.0.0.1:1,y=http://127.0.0.1:2"
    conf = airflow.conf(
        models=["scripted:a", "scripted:b"], prompts=["v1", "v2-mentor"], shards=2, experiment="lists",
        export_to=f"file://{folder}", n_scenarios=3,
    )  # fmt: skip
    code, log = airflow.test("bench_collect", conf, ASSIZE_HOSTS=hosts)
    assert code == 0, log
    assert "task_id=x.collect map_index=1" in log and "task_id=y.collect map_index=1" in log
    assert "The pools assize-x, assize-y were not checked" in log
    found = airflow.tracking.experiments()["lists"]
    assert (found["runs"], found["pending"]) == (12, 12)
    (file,) = folder.iterdir()
    assert json.loads(file.read_text())["experiment"] == "lists"
    assert f"Judge file: file://{file}" in log
    # The same trigger again finds everything collected.
    code, log = airflow.test("bench_collect", conf, ASSIZE_HOSTS=hosts)
    assert code == 0, log
    assert airflow.tracking.experiments()["lists"]["runs"] == 12


def test_the_run_waits_for_a_sitting(airflow: Airflow) -> None:
    conf = airflow.conf(models="scripted:a", experiment="sat", judge_mode="wait", poll_seconds=0.5)
    run = airflow.start("bench_collect", conf)
    tracking = airflow.tracking
    deadline = time.monotonic() + 300
    while tracking.experiments().get("sat", {}).get("pending") != 2:
        assert time.monotonic() < deadline and run.poll() is None
        time.sleep(0.5)
    assert tracking.run("judge", "export", "--experiment", "sat", "--out", "sat.json", "--no-anchors").returncode == 0
    time.sleep(2)
    assert run.poll() is None, "it does not wait"
    file = tracking.folder / "sat.json"
    content = json.loads(file.read_text())
    for case in content["cases"]:
        case["scores"] |= {"relevance": 4, "actionability": 4, "tone": 4}
    file.write_text(json.dumps(content))
    applied = tracking.run("judge", "apply", "sat.json", "--judge-kind", "human", "--judged-by", "Ada")
    assert applied.returncode == 0, applied
    log, _ = run.communicate(timeout=600)
    assert run.returncode == 0, log
    assert "2 of 2 cells judged (expert)" in log


@pytest.mark.parametrize(
    ("conf", "message"),
    [
        ({"n_tip": 3}, "'n_tip' is not a key of this DAG: did you mean 'n_tips'?"),
        ({"n_tips": "five"}, "'five' is not of type 'integer'"),
        ({"mlflow_url": "http://127.0.0.1:9"}, "the tracking server http://127.0.0.1:9 is unreachable"),
    ],
)
def test_bad_input_is_reported_before_anything_is_done(airflow: Airflow, conf, message) -> None:
    code, log = airflow.test("bench_collect", airflow.conf(models="scripted:a", experiment="bad", **conf))
    assert code == 1, log
    assert message in log
    assert "bad" not in airflow.tracking.experiments()


def test_a_step_that_fails_fails_the_run(airflow: Airflow) -> None:
    conf = airflow.conf(models="scripted:a", experiment="no-folder", export_to="file:///dev/null/nowhere")
    code, log = airflow.test("bench_collect", conf)
    assert code == 1, log
    assert "the judge file file:///dev/null/nowhere/no-folder" in log
    assert airflow.tracking.experiments()["no-folder"]["runs"] == 2, "what was collected is kept"


def test_a_missing_binary_is_named(airflow: Airflow) -> None:
    code, log = airflow.test("sim_run", {}, ASSIZE_BIN="/nowhere/assize")
    assert code == 1
    assert "the binary '/nowhere/assize' cannot be started" in log


def test_a_simulation(airflow: Airflow) -> None:
    conf = {"policies": "egreedy-v1,linucb", "steps": 50, "seeds": 2, "sensitivity": False, "experiment": "study"}
    code, log = airflow.test("sim_run", conf)
    assert code == 0, log
    found = airflow.tracking.get("/api/2.0/mlflow/experiments/get-by-name?experiment_name=study")
    assert found["experiment"]["name"] == "study"
    code, log = airflow.test("sim_run", conf | {"step": 3})
    assert code == 1
    assert "'step' is not a key of this DAG: did you mean 'steps'?" in log


def test_the_package_depends_on_airflow_alone() -> None:
    project = tomllib.loads((PACKAGE / "pyproject.toml").read_text())["project"]
    assert project["dependencies"] == ["apache-airflow>=3.0"]


def test_the_dags_are_listed(airflow: Airflow) -> None:
    words = [sys.executable, "-m", "airflow", "dags", "list", "--output", "json", "--local"]
    done = subprocess.run(words, env=airflow.environment(), capture_output=True, text=True, check=True)
    assert {it["dag_id"] for it in json.loads(done.stdout.splitlines()[-1])} == {"bench_collect", "sim_run"}

"""What the tests share: an Airflow home with a migrated database, a tracking server, and scripted
models. The binary is `ASSIZE_BIN`, else the `assize` in the PATH."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import urllib.request
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

PACKAGE = Path(__file__).parent.parent
SOURCES = str(PACKAGE / "src")
BINARY = os.environ.get("ASSIZE_BIN") or "assize"

SCORES = {"relevance": 3, "actionability": 3, "tone": 3}


def answers(texts: list[str], error: str | None = None) -> dict[str, Any]:
    response = {"prompt": "*", "scenario": "*", "texts": texts, "error": error}
    return {"parameter_count": 500_000_000, "responses": [response]}


SCRIPT = {
    "models": {
        "a": answers(["Walk now."]),
        "b": answers(["Drink some water.", "Call a friend."]),
        "broken": answers(["x"], "http_500"),
        "judge": {"parameter_count": 500_000_000, "judge": {"noise": 0.0, "bias": 0.0}, "scores": {"*": SCORES}},
    }
}


@dataclass
class Tracking:
    """A running `assize serve`, as a tracking server."""

    url: str
    token: str
    folder: Path

    def run(self, *words: str) -> subprocess.CompletedProcess[str]:
        variables = os.environ | {"MLFLOW_TRACKING_TOKEN": self.token}
        command = [BINARY, "--tracking-uri", self.url, *words]
        return subprocess.run(command, cwd=self.folder, env=variables, capture_output=True, text=True)

    def json(self, *words: str) -> Any:
        done = self.run(*words)
        assert done.returncode == 0, done
        return json.loads(done.stdout)

    def get(self, path: str) -> Any:
        request = urllib.request.Request(self.url + path, headers={"Authorization": f"Bearer {self.token}"})
        with urllib.request.urlopen(request) as answer:
            return json.load(answer)

    def experiments(self) -> dict[str, Any]:
        return {it["name"]: it for it in self.json("experiments", "list", "--json")["experiments"]}


@pytest.fixture(scope="session")
def tracking(tmp_path_factory: pytest.TempPathFactory):
    folder = tmp_path_factory.mktemp("tracking")
    words = [BINARY, "serve", "--port", "0", "--json"]
    process = subprocess.Popen(words, cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    try:
        assert process.stdout is not None
        announced = json.loads(process.stdout.readline())
        yield Tracking(announced["url"], announced["token"], folder)
    finally:
        process.terminate()
        process.wait()


@dataclass
class Airflow:
    """An Airflow home in which `airflow dags test` runs; no server is needed."""

    home: Path
    script: Path
    tracking: Tracking

    def environment(self, **more: str) -> dict[str, str]:
        home = self.home
        kept = {key: value for key, value in os.environ.items() if not key.startswith(("AIRFLOW", "ASSIZE", "MLFLOW"))}
        return kept | {
            "AIRFLOW_HOME": str(home),
            "AIRFLOW__CORE__DAGS_FOLDER": str(PACKAGE / "dags"),
            "AIRFLOW__CORE__LOAD_EXAMPLES": "False",
            "AIRFLOW__DATABASE__SQL_ALCHEMY_CONN": f"sqlite:///{home}/airflow.db",
            "PYTHONPATH": SOURCES,
            "ASSIZE_BIN": BINARY,
            "ASSIZE_AIRFLOW_RETRIES": "0",
            "MLFLOW_TRACKING_URI": self.tracking.url,
            "MLFLOW_TRACKING_TOKEN": self.tracking.token,
            "NO_COLOR": "1",
            **more,
        }

    def start(self, dag: str, conf: dict[str, Any], **more: str) -> subprocess.Popen[str]:
        words = [sys.executable, "-m", "airflow", "dags", "test", dag, "--conf", json.dumps(conf)]
        pipe = subprocess.PIPE
        return subprocess.Popen(words, env=self.environment(**more), stdout=pipe, stderr=subprocess.STDOUT, text=True)

    def test(self, dag: str, conf: dict[str, Any], **more: str) -> tuple[int, str]:
        """`airflow dags test`: its exit code and its log."""
        process = self.start(dag, conf, **more)
        log, _ = process.communicate(timeout=600)
        return process.returncode, log

    def conf(self, **more: Any) -> dict[str, Any]:
        base = {"script": str(self.script), "prompts": "v1", "n_scenarios": 2, "n_tips": 2, "retries": 0}
        return base | more


@pytest.fixture(scope="session")
def airflow(tmp_path_factory: pytest.TempPathFactory, tracking: Tracking) -> Airflow:
    home = tmp_path_factory.mktemp("airflow")
    script = home / "script.json"
    script.write_text(json.dumps(SCRIPT))
    made = Airflow(home, script, tracking)
    words = [sys.executable, "-m", "airflow", "db", "migrate"]
    subprocess.run(words, env=made.environment(), check=True, capture_output=True)
    return made

"""The manifest fits Kubernetes' own schemas, and its command, run for every index with the real
binary, does the whole grid once."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path

import kubernetes_validate
import pytest
import yaml

BINARY = os.environ.get("ASSIZE_BIN") or "assize"
MANIFEST = Path(__file__).parent.parent / "collect-job.yaml"
#: The oldest version that has everything in the manifest, and the newest that the validator knows.
VERSIONS = ["1.33.0", kubernetes_validate.latest_version()]


def job() -> dict:
    return yaml.safe_load(MANIFEST.read_text())


@pytest.mark.parametrize("version", VERSIONS)
def test_it_fits_the_schema(version: str) -> None:
    kubernetes_validate.validate(job(), version, strict=True)


@pytest.mark.parametrize("version", VERSIONS)
def test_the_validator_finds_mistakes(version: str) -> None:
    misspelt = job()
    misspelt["spec"]["completionmode"] = misspelt["spec"].pop("completionMode")
    with pytest.raises(kubernetes_validate.ValidationError):
        kubernetes_validate.validate(misspelt, version, strict=True)
    wrong = job()
    wrong["spec"]["completions"] = "eight"
    with pytest.raises(kubernetes_validate.ValidationError):
        kubernetes_validate.validate(wrong, version, strict=True)


def test_its_parts_agree() -> None:
    spec = job()["spec"]
    (container,) = spec["template"]["spec"]["containers"]
    variables = {it["name"]: it.get("value") for it in container["env"]}
    assert int(variables["SHARDS"]) == spec["completions"] >= spec["parallelism"]
    assert spec["template"]["spec"]["restartPolicy"] == "Never", "podFailurePolicy needs it"
    for rule in spec["podFailurePolicy"]["rules"]:
        assert rule.get("onExitCodes", {}).get("containerName", container["name"]) == container["name"]


def test_its_command_does_the_whole_grid_once(tmp_path: Path) -> None:
    spec = job()["spec"]
    (container,) = spec["template"]["spec"]["containers"]
    models = ["a", "b", "c", "d"]
    response = {"prompt": "*", "scenario": "*", "texts": ["Walk now."]}
    script = {"models": {it: {"parameter_count": 1, "responses": [response]} for it in models}}
    (tmp_path / "script.json").write_text(json.dumps(script))
    os.symlink(BINARY, tmp_path / "assize")
    variables = {it["name"]: it.get("value", "") for it in container["env"]} | {
        "PATH": f"{tmp_path}:{os.environ['PATH']}",
        "MODELS": ",".join(f"scripted:{it}" for it in models),
        "ASSIZE_SCRIPT": "script.json",
        "ASSIZE_N_TIPS": "1",
        "MLFLOW_TRACKING_URI": f"sqlite:{tmp_path}/store.db",
        "MLFLOW_TRACKING_TOKEN": "",
    }
    seen = []
    for index in range(spec["completions"]):
        words = [*container["command"], *container["args"]]
        own = variables | {"JOB_COMPLETION_INDEX": str(index)}
        done = subprocess.run(words, cwd=tmp_path, env=own, capture_output=True, text=True)
        assert done.returncode == 0, done
        events = [json.loads(it) for it in done.stdout.splitlines()]
        seen += [(it["model"], it["prompt"], it["scenario"]) for it in events if it["event"] == "cell"]
        assert {it["status"] for it in events if it["event"] == "cell"} == {"collected"}
    assert len(seen) == len(set(seen)) == 4 * 3 * 8

"""The params of the DAGs and the binary's own list agree, in both directions."""

from __future__ import annotations

import subprocess
import tomllib

import pytest
from conftest import BINARY, Tracking

from assize_airflow.bench_collect import bench_collect
from assize_airflow.options import BENCH, COLLECT, SIMULATE, STUDY, InvalidConf, Option, values
from assize_airflow.sim_run import sim_run

KINDS = {"list": "array"}


def fields(tracking: Tracking, path: str) -> dict[str, str]:
    """The fields of a request, with their types, from the binary's OpenAPI document."""
    operation = tracking.get("/api/openapi.json")["paths"][path]["post"]
    schema = operation["requestBody"]["content"]["application/json"]["schema"]
    return {key: it["type"] for key, it in schema["properties"].items()}


@pytest.mark.parametrize(("path", "options"), [("/api/bench/run", COLLECT), ("/api/sim/run", SIMULATE)])
def test_keys_and_types_are_the_binary_s(tracking: Tracking, path: str, options: tuple[Option, ...]) -> None:
    ours = {it.key: KINDS.get(it.kind, it.kind) for it in options}
    assert ours == fields(tracking, path)


def test_defaults_are_the_binary_s(tmp_path) -> None:
    shown = subprocess.run([BINARY, "config", "--defaults"], cwd=tmp_path, capture_output=True, text=True, check=True)
    settings = tomllib.loads(shown.stdout)
    # The binary computes these: the models by what answers, the prompts from the task.
    computed = {"models", "prompts", "task", "mlflow_url"}
    for option in COLLECT:
        if option.key in computed:
            continue
        default = settings[option.key]
        if option.kind == "list":
            default = ",".join(default)
        assert option.default == (default if default != "" else None), option.key


def test_defaults_of_models_and_prompts_are_documented_ones(tmp_path) -> None:
    shown = subprocess.run([BINARY, "config", "--defaults"], cwd=tmp_path, capture_output=True, text=True, check=True)
    table = {it.key: it for it in COLLECT}
    for model in table["models"].default.split(","):
        assert model in shown.stdout
    subprocess.run([BINARY, "init", "copy"], cwd=tmp_path, capture_output=True, check=True)
    prompts = sorted(it.stem for it in (tmp_path / "copy/prompts").iterdir())
    assert sorted(table["prompts"].default.split(",")) == prompts


def test_the_dags_have_all_of_them_as_params() -> None:
    assert set(bench_collect.params) == {it.key for it in (*COLLECT, *BENCH)}
    assert set(sim_run.params) == {it.key for it in (*SIMULATE, *STUDY)}


def read(**conf):
    return values((*COLLECT, *BENCH), bench_collect.params.dump() | conf, conf)


def test_lists_are_taken_as_texts_and_as_lists() -> None:
    for models in ("x, y,", ["x", "y"]):
        assert read(models=models)["models"] == ["x", "y"]
    assert read()["models"] == ["qwen2.5:0.5b", "qwen2.5:1.5b", "gemma3:1b", "llama3.2:3b"]


@pytest.mark.parametrize(
    ("conf", "message"),
    [
        ({"n_tip": 3}, "'n_tip' is not a key of this DAG: did you mean 'n_tips'?"),
        ({"zzz": 3}, "'zzz' is not a key of this DAG: choose from assume_size, base_url"),
        ({"n_tips": "5"}, "n_tips is '5': '5' is not of type 'integer' (Candidates per cell)"),
        ({"n_tips": 0}, "n_tips is 0: 0 is less than the minimum of 1"),
        ({"temperature": "hot"}, "'hot' is not of type 'number'"),
        ({"diversity": "yes"}, "'yes' is not of type 'boolean'"),
        ({"models": [1]}, "1 is not of type 'string'"),
        ({"models": " , "}, "models is ' , ': name at least one"),
        ({"max_model_b": 0}, "0 is less than or equal to the minimum of 0"),
        ({"split": "all"}, "'all' is not one of ['selection', 'feedback', 'confirmation']"),
    ],
)
def test_invalid_values_are_named(conf, message) -> None:
    with pytest.raises(InvalidConf) as problem:
        read(**conf)
    assert message in str(problem.value)


def test_all_problems_are_reported_at_once() -> None:
    with pytest.raises(InvalidConf) as problem:
        read(n_tip=3, n_tips="x", seed=-1)
    assert len(str(problem.value).splitlines()) == 3

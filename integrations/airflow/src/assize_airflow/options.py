"""The keys of a collection and of a simulation, with their defaults and types, as Airflow params.

`COLLECT` repeats the fields of `POST /api/bench/run`, and `SIMULATE` those of `POST /api/sim/run`;
a test compares both with the binary's own list. `BENCH` and `STUDY` are what only the DAGs have.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from airflow.sdk import Param


@dataclass(frozen=True)
class Option:
    key: str
    #: `list`, `string`, `integer`, `number` or `boolean`
    kind: str
    #: `None` means that there is none; lists have it as a text with commas, as the form shows it.
    default: Any
    help: str
    minimum: float | None = None
    maximum: float | None = None
    exclusive_minimum: float | None = None
    choices: tuple[str, ...] = ()
    #: A task may propose another default.
    is_proposable: bool = False
    #: The flag of a list is repeated, instead of taking commas.
    repeats: bool = False

    def types(self) -> list[str]:
        own = ["string", "array"] if self.kind == "list" else [self.kind]
        return ["null", *own] if self.default is None else own

    def schema(self) -> dict[str, Any]:
        """The value's JSON schema."""
        types = self.types()
        schema: dict[str, Any] = {"type": types if len(types) > 1 else types[0]}
        limits = (
            ("minimum", self.minimum),
            ("maximum", self.maximum),
            ("exclusiveMinimum", self.exclusive_minimum),
        )
        schema.update({name: limit for name, limit in limits if limit is not None})
        if self.choices:
            schema["enum"] = list(self.choices)
        if self.kind == "list":
            schema["items"] = {"type": "string"}
        return schema

    def param(self, default: Any = None) -> Param:
        value = self.default if default is None else default
        return Param(value, description=self.help, **self.schema())

    def words(self, value: Any) -> list[str]:
        """The value as words of a command line."""
        flag = "--" + self.key.replace("_", "-")
        if self.repeats:
            return [f"{flag}={it}" for it in value]
        if self.kind == "list":
            return [f"{flag}={','.join(value)}"]
        if self.kind == "boolean":
            return [f"{flag}={'true' if value else 'false'}"]
        return [f"{flag}={value}"]


COLLECT: tuple[Option, ...] = (
    Option(
        "models",
        "list",
        "qwen2.5:0.5b,qwen2.5:1.5b,gemma3:1b,llama3.2:3b",
        "Models to evaluate: Ollama tags, embedded:NAME, openai:NAME, scripted:NAME; comma-separated or a list",
    ),
    Option(
        "prompts",
        "list",
        "v1,v2-mentor,v3-few-shot",
        "Prompt versions; comma-separated or a list",
        is_proposable=True,
    ),
    Option("n_tips", "integer", 5, "Candidates per cell", minimum=1, maximum=1000, is_proposable=True),
    Option("n_scenarios", "integer", 0, "Cap on scenarios, 0 = all", minimum=0),
    Option("temperature", "number", 0.7, "Sampling temperature", minimum=0, maximum=10, is_proposable=True),
    Option("experiment", "string", "tip-bench-auto", "Experiment name"),
    Option(
        "max_model_b",
        "number",
        4.0,
        "Reject larger models, in billions of parameters",
        exclusive_minimum=0,
        maximum=1e6,
    ),
    Option("diversity", "boolean", False, "Give each candidate its own angle, and log a diversity metric"),
    Option(
        "ollama_url",
        "list",
        "http://localhost:11434",
        "Ollama hosts, of those in ASSIZE_HOSTS where that is set; comma-separated or a list",
    ),
    Option("mlflow_url", "string", None, "Where runs are tracked; empty: MLFLOW_TRACKING_URI of the workers"),
    Option("seed", "integer", 42, "Determines seeds and orders", minimum=0),
    Option("task", "string", None, "The task: a built-in name, or a folder on the workers; empty: tip"),
    Option("max_tokens", "integer", 128, "Most tokens per candidate", minimum=1, is_proposable=True),
    Option("num_ctx", "integer", 2048, "Context per candidate, in tokens", minimum=1, is_proposable=True),
    Option(
        "split",
        "string",
        "selection",
        "Which scenarios: selection, feedback or confirmation",
        choices=("selection", "feedback", "confirmation"),
    ),
    Option(
        "sweep",
        "list",
        None,
        "Settings that become part of the pairs, such as temperature=0.2,0.7; comma-separated or a list",
        repeats=True,
    ),
    Option(
        "model_options",
        "list",
        None,
        "Options that are sent to the models as they are, such as top_k=20; comma-separated or a list",
        is_proposable=True,
        repeats=True,
    ),
    Option("judge_kind", "string", "claude-code", "The kind of judge that the runs are pending for"),
    Option("base_url", "string", None, "Endpoint of openai: models; empty: OPENAI_BASE_URL of the workers"),
    Option("script", "string", None, "Answers of scripted: models, a file on the workers"),
    Option(
        "assume_size",
        "list",
        None,
        "The size of a model that does not report one, MODEL=B in billions; comma-separated or a list",
        repeats=True,
    ),
    Option("jobs", "integer", 1, "Requests in flight for the resident model", minimum=1, maximum=1024),
    Option("timeout", "integer", 120, "Seconds that one request may take", minimum=1),
    Option(
        "retries",
        "integer",
        3,
        "Further tries for a request that failed and may succeed later",
        minimum=0,
        maximum=100,
    ),
)

#: What only the DAG bench_collect has.
BENCH: tuple[Option, ...] = (
    Option(
        "shards",
        "integer",
        1,
        "Parts into which each model's cells are cut; several hosts can then share a model",
        minimum=1,
        maximum=64,
    ),
    Option(
        "judge_mode",
        "string",
        "none",
        "none: judge later; auto: a model judges now; wait: wait until a sitting has judged everything",
        choices=("none", "auto", "wait"),
    ),
    Option("judge", "string", None, "The judging model of judge_mode auto; ids as in models"),
    Option("max_cost", "number", 0.0, "What judge_mode auto may spend, in US dollars; 0 = no cap", minimum=0),
    Option("wait_hours", "number", 168.0, "How long judge_mode wait waits", exclusive_minimum=0),
    Option("poll_seconds", "number", 60.0, "How often judge_mode wait looks", exclusive_minimum=0),
    Option(
        "export_to",
        "string",
        None,
        "Folder for a judge file, as a URI that judges can open (s3://…, file:///…); empty: no file, "
        "judges use the queue",
    ),
)

SIMULATE: tuple[Option, ...] = (
    Option(
        "policies",
        "list",
        "egreedy-v1,egreedy-v2,linucb",
        "The policies, the baseline first; comma-separated or a list",
    ),
    Option("steps", "integer", 2000, "Decisions for each persona, seed and policy", minimum=1),
    Option("seeds", "integer", 20, "Repetitions with other draws", minimum=1),
    Option("seed", "integer", 1, "Determines all draws", minimum=0),
    Option(
        "warm_up",
        "integer",
        0,
        "Decisions of the baseline from which every policy learns first",
        minimum=0,
    ),
    Option(
        "sensitivity",
        "boolean",
        True,
        "Whether drift, delayed reward, cold start and misspecified reward are simulated too",
    ),
)

#: What only the DAG sim_run has.
STUDY: tuple[Option, ...] = (
    Option("experiment", "string", None, "The experiment that holds the results; empty: simulation-DATE-TIME"),
    Option("mlflow_url", "string", None, "Where results are tracked; empty: MLFLOW_TRACKING_URI of the workers"),
)


class InvalidConf(ValueError):
    """What is wrong with a run's conf: every problem, a line each."""


def values(options: Iterable[Option], params: Mapping[str, Any], conf: Mapping[str, Any]) -> dict[str, Any]:
    """Every option's value, lists as lists. `conf` is what the trigger named, `params` what is in force."""
    table = {it.key: it for it in options}
    problems = [_unknown(key, table) for key in conf if key not in table]
    read: dict[str, Any] = {}
    for key, option in table.items():
        value = params.get(key, option.default)
        problem = _problem(option, value)
        if problem:
            problems.append(f"{key} is {value!r}: {problem}")
            continue
        read[key] = _list(value) if option.kind == "list" else value
    if problems:
        raise InvalidConf("\n".join(problems))
    return read


def _unknown(key: str, table: Mapping[str, Option]) -> str:
    near = difflib.get_close_matches(key, table, n=1)
    hint = f"did you mean '{near[0]}'?" if near else f"choose from {', '.join(sorted(table))}"
    return f"'{key}' is not a key of this DAG: {hint}"


def _list(value: Any) -> list[str]:
    if value is None:
        return []
    parts = value.split(",") if isinstance(value, str) else value
    return [it.strip() for it in parts if it.strip()]


def _problem(option: Option, value: Any) -> str | None:
    from jsonschema import Draft202012Validator

    found = next(iter(Draft202012Validator(option.schema()).iter_errors(value)), None)
    if found is None:
        if option.kind == "list" and option.default is not None and not _list(value):
            return "name at least one"
        return None
    return f"{found.message} ({option.help})"

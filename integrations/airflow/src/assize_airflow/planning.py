"""What the task `plan` decides: which model is collected on which host, and the words of each
command. It checks everything that can be checked before anything is generated.

Models go to the host that has the fewest cells so far, among those that have the model; a host that
does not answer is left out while another one can do the work. What is passed on to other tasks are
names, words and URIs, never local files.
"""

from __future__ import annotations

import json
import logging
import urllib.request
from collections.abc import Callable, Mapping
from typing import Any

from assize_airflow import config
from assize_airflow.command import Command
from assize_airflow.config import Host
from assize_airflow.options import COLLECT, InvalidConf

log = logging.getLogger("airflow.task.assize")

#: The Airflow connection to its own REST API, with which `plan` checks the pools.
API_CONNECTION = "assize_airflow_api"

#: Options that the DAG places by itself.
PLACED = {"models", "experiment", "ollama_url", "mlflow_url", "task"}

Tags = Callable[[str], "set[str] | None"]


def make_plan(
    values: Mapping[str, Any], named: set[str], hosts: list[Host], tags: Tags | None = None
) -> dict[str, Any]:
    """The plan of a run. `named` are the keys that the trigger named."""
    if values["judge_mode"] == "auto" and not values["judge"]:
        raise InvalidConf("judge_mode is auto: name the judging model with judge")
    chosen = choose_hosts(values["ollama_url"], hosts)
    uri = config.tracking_uri(values["mlflow_url"])
    words = common_words(values, named)
    units: dict[str, list[dict[str, Any]]] = {it.name: [] for it, _ in chosen}
    for model, candidates in placements(values["models"], chosen, tags or ollama_tags).items():
        for shard in range(1, values["shards"] + 1):
            least = min(candidates, key=lambda it: len(units[it]))
            units[least].append({"model": model, "shard": f"{shard}/{values['shards']}"})
    urls = {host.name: urls for host, urls in chosen}
    return {
        "experiment": values["experiment"],
        "tracking_uri": uri,
        "task": values["task"],
        "split": values["split"],
        "words": words,
        "urls": urls,
        "units": units,
    }


def choose_hosts(urls: list[str], hosts: list[Host]) -> list[tuple[Host, list[str]]]:
    """The hosts of a run with their addresses.

    Without ASSIZE_HOSTS there is one group of tasks, and the binary itself spreads its models over
    all addresses. With it, every address must be one that has a pool.
    """
    urls = [it.rstrip("/") for it in urls]
    if len(hosts) == 1 and hosts[0] == config.hosts_from("")[0]:
        return [(hosts[0], urls)]
    unknown = [it for it in urls if it not in {host.url for host in hosts}]
    if unknown:
        known = ", ".join(f"{it.name} ({it.url})" for it in hosts)
        raise InvalidConf(
            f"ollama_url names {unknown[0]}, which is not in ASSIZE_HOSTS and so has no pool: choose from {known}"
        )
    return [(host, [host.url]) for host in hosts if host.url in urls]


def common_words(values: Mapping[str, Any], named: set[str]) -> list[str]:
    """The options that all collections of a run share, explicitly, so that the settings of a
    single worker cannot change some of its cells. Where another task may propose a value, only
    what the trigger named is passed."""
    is_own_task = values["task"] not in (None, "", "tip")
    words: list[str] = []
    for option in COLLECT:
        value = values[option.key]
        if option.key in PLACED or value is None or value == []:
            continue
        default = option.default.split(",") if option.kind == "list" and option.default else option.default
        if is_own_task and option.is_proposable and (option.key not in named or value == default):
            continue
        words += option.words(value)
    return words


def placements(
    models: list[str], chosen: list[tuple[Host, list[str]]], tags: Tags
) -> dict[str, list[str]]:
    """The hosts on which each model can run, by name."""
    names = [host.name for host, _ in chosen]
    is_ollama = {it: it.startswith("ollama:") or it.split(":")[0] not in ("embedded", "openai", "scripted") for it in models}
    if not any(is_ollama.values()):
        return {it: names for it in models}
    found = {host.name: _tags_of(urls, tags) for host, urls in chosen}
    answering = [name for name in names if found[name] is not None]
    for host, urls in chosen:
        if found[host.name] is None:
            log.warning("The Ollama host %s (%s) does not answer.", host.name, ", ".join(urls))
    if not answering and all(is_ollama.values()):
        addresses = ", ".join(it for _, urls in chosen for it in urls)
        raise InvalidConf(f"no Ollama host answers at {addresses}: start Ollama there, or name others with ollama_url")
    placed: dict[str, list[str]] = {}
    for model in models:
        if not is_ollama[model]:
            placed[model] = names
            continue
        tag = model.removeprefix("ollama:")
        tag = tag if ":" in tag else f"{tag}:latest"
        having = [name for name in answering if tag in (found[name] or ())]
        placed[model] = having or answering or names
    return placed


def _tags_of(urls: list[str], tags: Tags) -> set[str] | None:
    answers = [it for it in map(tags, urls) if it is not None]
    return set().union(*answers) if answers else None


def ollama_tags(url: str) -> set[str] | None:
    """The models that an Ollama host has; `None` where it does not answer."""
    try:
        with urllib.request.urlopen(f"{url}/api/tags", timeout=10) as answer:
            return {it["name"] for it in json.load(answer).get("models", [])}
    except (OSError, ValueError, KeyError, TypeError):
        return None


def check_tracking(uri: str) -> None:
    """Fails where the tracking server cannot be used, before anything is generated."""
    if uri.startswith("sqlite:"):
        log.warning("Runs are tracked in %s, a file of this worker. Where tasks run on several machines, name a tracking server with mlflow_url or MLFLOW_TRACKING_URI.", uri)
        return
    outcome = Command(["experiments", "list", "--json"], uri).run(quiet=True)
    if outcome.code != 0:
        raise outcome.exception("the tracking server cannot be used")


def check_pools(pools: list[str]) -> None:
    """Fails where a pool is missing: Airflow would leave its tasks scheduled for ever."""
    found = api_pools()
    if found is None:
        log.warning(
            "The pools %s were not checked, because there is no connection '%s' to Airflow's API. A missing pool "
            "leaves its tasks scheduled for ever; create it with: airflow pools set %s 1 'Assize'",
            ", ".join(pools), API_CONNECTION, pools[0],
        )
        return
    missing = [it for it in pools if it not in found]
    if missing:
        commands = "\n".join(f"  airflow pools set {it} 1 'Assize model host'" for it in missing)
        raise InvalidConf(f"the pool '{missing[0]}' does not exist in Airflow, so its tasks would never start; run\n{commands}")


def api_pools() -> set[str] | None:
    """The names of Airflow's pools; `None` without a connection to its API."""
    from airflow.sdk import Connection
    from airflow.sdk.exceptions import AirflowNotFoundException, AirflowRuntimeError

    try:
        connection = Connection.get(API_CONNECTION)
    except (AirflowNotFoundException, AirflowRuntimeError):
        return None
    scheme = connection.schema if connection.schema in ("http", "https") else None
    scheme = scheme or (connection.conn_type if connection.conn_type in ("http", "https") else "http")
    port = f":{connection.port}" if connection.port else ""
    base = f"{scheme}://{connection.host}{port}"
    try:
        token = _token(base, connection.login or "", connection.password or "")
        names: set[str] = set()
        while True:
            page = _call(f"{base}/api/v2/pools?limit=100&offset={len(names)}", token)
            names |= {it["name"] for it in page["pools"]}
            if len(names) >= page["total_entries"] or not page["pools"]:
                return names
    except (OSError, ValueError, KeyError) as error:
        raise InvalidConf(f"Airflow's API at {base} (connection {API_CONNECTION}) cannot be asked for its pools: {error}") from None


def _token(base: str, login: str, password: str) -> str:
    body = json.dumps({"username": login, "password": password}).encode()
    request = urllib.request.Request(f"{base}/auth/token", body, {"Content-Type": "application/json"})
    with urllib.request.urlopen(request, timeout=30) as answer:
        return json.load(answer)["access_token"]


def _call(url: str, token: str) -> Any:
    request = urllib.request.Request(url, headers={"Authorization": f"Bearer {token}"})
    with urllib.request.urlopen(request, timeout=30) as answer:
        return json.load(answer)


def experiment_link(uri: str, experiment: str) -> str | None:
    """A page that shows the experiment: the panel of `assize serve`, else MLflow's."""
    from urllib.parse import quote

    if config.panel_url():
        return f"{config.panel_url()}/experiments/{quote(experiment, safe='')}"
    if uri.startswith("sqlite:"):
        return None
    outcome = Command(["experiments", "list", "--json"], uri).run(quiet=True)
    if outcome.code != 0:
        return None
    ids = [it["experiment_id"] for it in outcome.json()["experiments"] if it["name"] == experiment]
    return f"{uri}/#/experiments/{ids[0]}" if ids else None

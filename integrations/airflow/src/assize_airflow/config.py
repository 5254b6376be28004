"""What the environment of Airflow's processes sets. It is read when the DAG files are parsed, so
the scheduler's side and the workers must agree on `ASSIZE_HOSTS`.

| variable | meaning |
|---|---|
| `ASSIZE_HOSTS` | model hosts, `gpu-a=http://gpu-a:11434,gpu-b=http://gpu-b:11434`, or a JSON object |
| `ASSIZE_BIN` | the binary; by default `assize` in the PATH |
| `ASSIZE_HOME` | the folder in which it runs; by default `$AIRFLOW_HOME/assize` |
| `ASSIZE_PANEL_URL` | address of `assize serve`, for the link to the leaderboard |
| `ASSIZE_AIRFLOW_RETRIES` | further tries of a collection that failed; 1 by default |
| `ASSIZE_AIRFLOW_RETRY_SECONDS` | seconds before a further try; 60 by default |
"""

from __future__ import annotations

import json
import os
import re
from dataclasses import dataclass
from pathlib import Path

DEFAULT_URL = "http://localhost:11434"


@dataclass(frozen=True)
class Host:
    """A model host. Its pool limits how many collections run on it at once."""

    name: str
    url: str
    pool: str
    queue: str | None = None


def hosts_from(text: str) -> list[Host]:
    """The hosts that `ASSIZE_HOSTS` names; one called `local` where it is empty."""
    text = text.strip()
    if not text:
        return [_host("local", {"ollama_url": DEFAULT_URL})]
    if text.startswith("{"):
        try:
            named = json.loads(text)
        except json.JSONDecodeError as error:
            raise ValueError(f"ASSIZE_HOSTS is not valid JSON: {error}") from None
    else:
        named = {}
        for part in filter(None, (it.strip() for it in text.split(","))):
            name, found, url = part.partition("=")
            if not found:
                raise ValueError(f"ASSIZE_HOSTS: '{part}' is not NAME=URL")
            if name.strip() in named:
                raise ValueError(f"ASSIZE_HOSTS names the host '{name.strip()}' twice")
            named[name.strip()] = url.strip()
    hosts = [_host(name, it if isinstance(it, dict) else {"ollama_url": it}) for name, it in named.items()]
    addresses = [it.url for it in hosts]
    for url in addresses:
        if addresses.count(url) > 1:
            raise ValueError(f"ASSIZE_HOSTS gives {url} to two hosts: a host has one pool")
    return hosts


def _host(name: str, fields: dict) -> Host:
    if not re.fullmatch(r"[A-Za-z0-9_-]+", name):
        raise ValueError(f"ASSIZE_HOSTS: '{name}' is not a valid host name: use letters, digits, - and _")
    unknown = sorted(set(fields) - {"ollama_url", "pool", "queue"})
    if unknown:
        raise ValueError(f"ASSIZE_HOSTS: host '{name}' has the unknown key '{unknown[0]}': use ollama_url, pool, queue")
    url = fields.get("ollama_url")
    if not isinstance(url, str) or not re.match(r"https?://", url):
        raise ValueError(f"ASSIZE_HOSTS: the address of host '{name}' is {url!r}: use http://HOST:PORT")
    return Host(name, url.rstrip("/"), fields.get("pool") or f"assize-{name}", fields.get("queue"))


def hosts() -> list[Host]:
    return hosts_from(os.environ.get("ASSIZE_HOSTS", ""))


def binary() -> str:
    return os.environ.get("ASSIZE_BIN") or "assize"


def home() -> Path:
    """Where the binary runs. Its journal of undelivered cells is in this folder, so it must outlive a task."""
    chosen = os.environ.get("ASSIZE_HOME")
    airflow = os.environ.get("AIRFLOW_HOME") or str(Path.home() / "airflow")
    folder = Path(chosen) if chosen else Path(airflow) / "assize"
    folder.mkdir(parents=True, exist_ok=True)
    return folder.resolve()


def panel_url() -> str:
    return os.environ.get("ASSIZE_PANEL_URL", "").rstrip("/")


def retries() -> int:
    return int(os.environ.get("ASSIZE_AIRFLOW_RETRIES") or 1)


def retry_seconds() -> float:
    return float(os.environ.get("ASSIZE_AIRFLOW_RETRY_SECONDS") or 60)


def tracking_uri(named: str | None) -> str:
    """Where runs are tracked: the param, else `MLFLOW_TRACKING_URI`, else a file in [`home`]."""
    chosen = named or os.environ.get("MLFLOW_TRACKING_URI")
    return chosen.rstrip("/") if chosen else f"sqlite:{home()}/.assize/assize.db"

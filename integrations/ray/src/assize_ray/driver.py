"""`assize-ray`: cuts a collection into shards, runs each on a host of a Ray cluster, and ends with
the summary that one process would have printed.

A host is a custom resource of its Ray node (`ray start --resources '{"assize_host": 1}'`); a shard
holds one of it, so that a host has one model at a time. The next free host takes the next shard. A
shard whose worker or node is lost is run again, wherever a host is free: `assize collect` generates
only what is missing. Cells are reported to an actor as they are settled, so that what a lost worker
had collected counts once. Shards meet in the tracking server; nothing else is shared.
"""

from __future__ import annotations

import argparse
import ctypes
import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections import deque
from dataclasses import dataclass
from typing import Any

import ray
from ray.exceptions import NodeDiedError, RayTaskError, WorkerCrashedError

DEFAULT_RESOURCE = "assize_host"
#: How often one shard may be lost with its worker.
MOST_LOSSES = 5
#: Exit codes of `assize`.
DONE, FAILED, INVALID, CELLS_FAILED, INTERRUPTED = 0, 1, 2, 4, 130
#: Flags that the driver places by itself.
OWN_FLAGS = ("--shard", "--json", "--dry-run", "--adaptive", "--events")


@dataclass(frozen=True)
class Host:
    """A resource that stands for a model host, and its Ollama where it is not the node's own."""

    resource: str
    url: str | None


@ray.remote(num_cpus=0)
class Ledger:
    """The cells that were settled, each once, in the order in which they were reported."""

    def __init__(self) -> None:
        self.cells: dict[tuple[str, str, str], dict[str, Any]] = {}
        self.workers: dict[int, int] = {}

    def started(self, shard: int, pid: int) -> None:
        self.workers[shard] = pid

    def add(self, cell: dict[str, Any]) -> None:
        key = (cell["model"], cell["prompt"], cell["scenario"])
        known = self.cells.get(key)
        # A cell of a lost worker is there already when its shard runs again.
        if known is None or (known["status"] == "failed" and cell["status"] != "failed"):
            self.cells[key] = cell

    def read(self) -> tuple[list[dict[str, Any]], dict[int, int]]:
        return list(self.cells.values()), self.workers


def run_shard(words: list[str], shard: tuple[int, int], ledger: Any) -> dict[str, Any]:
    """Runs one shard on a worker: its exit code, its summary and its messages."""
    ray.get(ledger.started.remote(shard[0], os.getpid()))
    folder = os.environ.get("ASSIZE_HOME") or os.path.join(os.path.expanduser("~"), ".assize-ray")
    os.makedirs(folder, exist_ok=True)
    command = [os.environ.get("ASSIZE_BIN") or "assize", "--no-color", "collect", "--json"]
    command += [f"--shard={shard[0]}/{shard[1]}", *words]
    try:
        process = subprocess.Popen(
            command,
            cwd=folder,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            preexec_fn=_end_with_parent,
        )
    except OSError as error:
        message = f"the binary '{command[0]}' cannot be started ({error.strerror}): install assize on every node, or name it with ASSIZE_BIN"
        return {"code": INVALID, "summary": None, "messages": [f"error: {message}"]}
    messages: list[str] = []
    assert process.stdout is not None and process.stderr is not None
    errors = process.stderr
    reader = threading.Thread(target=lambda: messages.extend(it.rstrip("\n") for it in errors), daemon=True)
    reader.start()
    summary = None
    for line in process.stdout:
        event = json.loads(line)
        if event.get("event") == "cell":
            ray.get(ledger.add.remote(event))
        elif event.get("event") == "summary":
            summary = event
    code = process.wait()
    reader.join()
    return {"code": code, "summary": summary, "messages": messages[-20:]}


def _end_with_parent() -> None:
    """On Linux the binary gets SIGTERM when the worker is killed, so that no lost shard goes on."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(1, signal.SIGTERM)


class Driver:
    """Hands out shards to hosts until all are done."""

    def __init__(self, words: list[str], shards: int, hosts: list[Host]) -> None:
        self.words, self.shards, self.hosts = words, shards, hosts
        self.waiting = deque(range(1, shards + 1))
        self.running: dict[Any, tuple[int, Host]] = {}
        self.losses: dict[int, int] = {}
        self.results: dict[int, dict[str, Any]] = {}
        self.ledger = Ledger.remote()

    def run(self) -> tuple[int, dict[str, Any]]:
        started = time.monotonic()
        while self.waiting or self.running:
            self._submit()
            if not self.running:
                names = ", ".join(it.resource for it in self.hosts)
                say(f"error: no node of the cluster has the resource {names}: start nodes with ray start --resources '{{\"{self.hosts[0].resource}\": 1}}'")
                return INVALID, self._summary(started)
            done, _ = ray.wait(list(self.running), num_returns=1, timeout=2)
            for ref in done:
                self._settle(ref)
        return self._code(), self._summary(started)

    def _submit(self) -> None:
        """Gives every free host a shard."""
        available = ray.cluster_resources()
        for host in self.hosts:
            busy = sum(1 for _, it in self.running.values() if it == host)
            for _ in range(int(available.get(host.resource, 0)) - busy):
                if not self.waiting:
                    return
                shard = self.waiting.popleft()
                words = [*self.words, f"--ollama-url={host.url}"] if host.url else self.words
                # The driver itself runs a lost shard again, on whichever host is free.
                task = ray.remote(num_cpus=0, resources={host.resource: 1}, max_retries=0)(run_shard)
                ref = task.options(name=f"assize shard {shard}/{self.shards}").remote(
                    words, (shard, self.shards), self.ledger
                )
                self.running[ref] = (shard, host)

    def _settle(self, ref: Any) -> None:
        shard, host = self.running.pop(ref)
        try:
            result = ray.get(ref)
        except (WorkerCrashedError, NodeDiedError) as error:
            self.losses[shard] = self.losses.get(shard, 0) + 1
            if self.losses[shard] < MOST_LOSSES:
                say(f"Shard {shard}/{self.shards} lost its worker on {host.resource}; it runs again.")
                self.waiting.append(shard)
                return
            message = f"shard {shard} lost its worker {MOST_LOSSES} times: {error}"
            result = {"code": FAILED, "summary": None, "messages": [f"error: {message}"]}
        except RayTaskError as error:
            result = {"code": FAILED, "summary": None, "messages": [f"error: shard {shard}: {error.cause}"]}
        self.results[shard] = result
        say(f"Shard {shard}/{self.shards} ended on {host.resource} with exit code {result['code']}.")
        if result["code"] != DONE:
            for line in result["messages"]:
                say(f"  {line}")

    def _code(self) -> int:
        codes = {it["code"] for it in self.results.values()}
        for code in (INTERRUPTED, INVALID, FAILED, CELLS_FAILED):
            if code in codes:
                return code
        return max(codes, default=DONE)

    def _summary(self, started: float) -> dict[str, Any]:
        cells, _ = ray.get(self.ledger.read.remote())
        parts = [it["summary"] for it in self.results.values() if it["summary"]]
        count = lambda status: sum(1 for it in cells if it["status"] == status)  # noqa: E731
        loads: dict[str, int] = {}
        for part in parts:
            for model, number in part["model_loads"].items():
                loads[model] = loads.get(model, 0) + number
        rejections = {it["model"]: it for part in parts for it in part.get("rejections", [])}
        return {
            "event": "summary",
            "cells": len(cells),
            "collected": count("collected"),
            "skipped": count("skipped"),
            "failed": count("failed"),
            "failed_candidates": sum(it.get("failed_candidates", 0) for it in parts),
            "rejected_models": sorted({it for part in parts for it in part["rejected_models"]}),
            "rejections": list(rejections.values()),
            "undelivered": sum(it.get("undelivered", 0) for it in parts),
            "model_loads": loads,
            "seconds": round(time.monotonic() - started, 3),
            "shards": self.shards,
            "lost_workers": sum(self.losses.values()),
        }


def say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


def hosts_from(names: list[str]) -> list[Host]:
    hosts = []
    for name in names or [DEFAULT_RESOURCE]:
        resource, _, url = name.partition("=")
        if not resource or (url and not url.startswith(("http://", "https://"))):
            raise SystemExit(f"error: '{name}' is not RESOURCE or RESOURCE=http://HOST:PORT")
        hosts.append(Host(resource, url or None))
    return hosts


def tracking_uri(words: list[str]) -> str | None:
    for at, word in enumerate(words):
        flag, found, value = word.partition("=")
        if flag in ("--tracking-uri", "--mlflow-url"):
            return value if found else (words[at + 1] if at + 1 < len(words) else None)
    return os.environ.get("MLFLOW_TRACKING_URI")


def arguments() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="assize-ray",
        description="Spread an Assize collection over a Ray cluster.",
        epilog="Everything after -- is passed to assize collect on every node.",
    )
    parser.add_argument("--address", default="auto", help="the cluster [default: the one of this machine]")
    parser.add_argument("--shards", type=int, default=0, help="parts of the grid [default: two for each host]")
    parser.add_argument(
        "--host",
        action="append",
        default=[],
        metavar="RESOURCE[=URL]",
        help=f"a resource that stands for a model host, and its Ollama; repeatable [default: {DEFAULT_RESOURCE}]",
    )
    parser.add_argument("collect", nargs="*", metavar="-- FLAGS OF assize collect")
    return parser


def main(argv: list[str] | None = None) -> int:
    args = arguments().parse_args(argv)
    hosts = hosts_from(args.host)
    taken = [it for it in args.collect if it.split("=")[0] in OWN_FLAGS]
    if taken:
        say(f"error: {taken[0]} cannot be used here: the driver cuts the grid by itself")
        return INVALID
    uri = tracking_uri(args.collect)
    if not uri or not uri.startswith(("http://", "https://")):
        say("error: shards of several nodes meet in a tracking server: name one with -- --tracking-uri http://HOST:PORT, or MLFLOW_TRACKING_URI")
        return INVALID
    words = list(args.collect)
    if not any(it.split("=")[0] in ("--tracking-uri", "--mlflow-url") for it in words):
        words.append(f"--tracking-uri={uri}")
    if not ray.is_initialized():
        try:
            ray.init(address=args.address, logging_level="warning", log_to_driver=False)
        except ConnectionError as error:
            say(f"error: the Ray cluster {args.address} cannot be used: {error}")
            return FAILED
    total = ray.cluster_resources()
    slots = sum(int(total.get(it.resource, 0)) for it in hosts)
    code, summary = Driver(words, args.shards or max(1, 2 * slots), hosts).run()
    print(json.dumps(summary), flush=True)
    return code


if __name__ == "__main__":
    sys.exit(main())

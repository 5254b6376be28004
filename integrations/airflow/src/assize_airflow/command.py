"""Runs the binary: its messages go to the task's log while it runs, its data are returned."""

from __future__ import annotations

import ctypes
import json
import logging
import os
import signal
import subprocess
import sys
import threading
from dataclasses import dataclass, field
from typing import Any

from airflow.sdk.exceptions import AirflowException, AirflowFailException

from assize_airflow import config

log = logging.getLogger("airflow.task.assize")

#: Exit codes after which another try can succeed: a service failed, some cells failed, interrupted.
TRANSIENT = {1, 4, 130}
#: Airflow kills a task five seconds after it was asked to end.
STOP_SECONDS = 4


@dataclass
class Outcome:
    code: int
    lines: list[str] = field(default_factory=list)
    messages: list[str] = field(default_factory=list)

    def json(self) -> Any:
        return json.loads("\n".join(self.lines))

    def error(self) -> str:
        """Why it failed: the lines from the last `error:` on, else the last message."""
        starts = [at for at, it in enumerate(self.messages) if it.startswith("error:")]
        if starts:
            return "\n".join(self.messages[starts[-1] :])
        return self.messages[-1] if self.messages else f"assize ended with exit code {self.code}"

    def exception(self, what: str, more: str = "") -> AirflowException:
        """The exception that fails the task; invalid input is not tried again."""
        kind = AirflowException if self.code in TRANSIENT else AirflowFailException
        return kind(f"{what}: {self.error()}{more}")


class Command:
    """One invocation of the binary, which `stop` ends."""

    def __init__(self, words: list[str], tracking_uri: str | None = None) -> None:
        place = ["--tracking-uri", tracking_uri] if tracking_uri else []
        self.words = [config.binary(), "--no-color", *place, *words]
        self.process: subprocess.Popen[str] | None = None

    def run(self, quiet: bool = False) -> Outcome:
        """Runs it to its end. `quiet` keeps its messages out of the log unless it fails."""
        try:
            self.process = subprocess.Popen(
                self.words,
                cwd=config.home(),
                # Messages are not wrapped, so that a line of the log is a whole sentence.
                env=os.environ | {"COLUMNS": "400"},
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                text=True,
                encoding="utf-8",
                errors="replace",
                preexec_fn=_end_with_parent,
            )
        except OSError as error:
            raise AirflowFailException(
                f"the binary '{self.words[0]}' cannot be started ({error.strerror}): install assize on this "
                "worker, or name it with ASSIZE_BIN"
            ) from None
        outcome = Outcome(0)
        reader = threading.Thread(target=self._read_messages, args=(outcome, quiet), daemon=True)
        reader.start()
        assert self.process.stdout is not None
        outcome.lines.extend(line.rstrip("\n") for line in self.process.stdout)
        outcome.code = self.process.wait()
        reader.join()
        if quiet and outcome.code != 0:
            for line in outcome.messages:
                log.info("%s", line)
        return outcome

    def _read_messages(self, outcome: Outcome, quiet: bool) -> None:
        assert self.process is not None and self.process.stderr is not None
        for line in self.process.stderr:
            outcome.messages.append(line.rstrip("\n"))
            if not quiet:
                log.info("%s", outcome.messages[-1])

    def stop(self) -> None:
        """Asks it to end: it unloads its model and keeps the finished cells."""
        if self.process is None or self.process.poll() is not None:
            return
        self.process.terminate()
        try:
            self.process.wait(timeout=STOP_SECONDS)
        except subprocess.TimeoutExpired:
            # A second signal ends it at once; the next collection on this host unloads its model.
            self.process.terminate()


def _end_with_parent() -> None:
    """A group of its own, and on Linux the end with the task's process, however that ends."""
    os.setpgid(0, 0)
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(1, signal.SIGTERM)


def pending_runs(tracking_uri: str, experiment: str) -> int:
    """How many runs of an experiment wait for the expert tier."""
    outcome = Command(["judge", "status", "--experiment", experiment, "--json"], tracking_uri).run(quiet=True)
    if outcome.code != 0:
        raise outcome.exception(f"cannot ask how far {experiment} is judged")
    return int(outcome.json()["expert"]["pending"])

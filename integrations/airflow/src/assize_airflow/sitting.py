"""Waits for a sitting in Airflow's triggerer, so that no worker is held meanwhile."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator
from typing import Any

from airflow.triggers.base import BaseTrigger, TriggerEvent

from assize_airflow.command import pending_runs

log = logging.getLogger("airflow.task.assize")

#: How often in succession the tracking server may fail before the wait fails.
MOST_FAILURES = 10


class SittingTrigger(BaseTrigger):
    """Fires when no run of the experiment waits for the expert tier."""

    def __init__(self, tracking_uri: str, experiment: str, poll_seconds: float) -> None:
        super().__init__()
        self.tracking_uri = tracking_uri
        self.experiment = experiment
        self.poll_seconds = poll_seconds

    def serialize(self) -> tuple[str, dict[str, Any]]:
        fields = {key: getattr(self, key) for key in ("tracking_uri", "experiment", "poll_seconds")}
        return ("assize_airflow.sitting.SittingTrigger", fields)

    async def run(self) -> AsyncIterator[TriggerEvent]:
        failures = 0
        while True:
            try:
                pending = await asyncio.to_thread(pending_runs, self.tracking_uri, self.experiment)
                failures = 0
                if pending == 0:
                    yield TriggerEvent({"pending": 0})
                    return
            except Exception as error:
                failures += 1
                log.warning("%s", error)
                if failures >= MOST_FAILURES:
                    yield TriggerEvent({"error": str(error)})
                    return
            await asyncio.sleep(self.poll_seconds)

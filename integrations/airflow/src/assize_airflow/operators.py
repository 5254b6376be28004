"""The tasks that run the binary. Each stops it when Airflow stops the task, and leaves what went
wrong in the XCom `error`, so that the last task can repeat it."""

from __future__ import annotations

import json
import tempfile
from datetime import timedelta
from pathlib import Path
from typing import Any

from airflow.sdk import BaseOperator, BaseOperatorLink
from airflow.sdk.exceptions import AirflowException, AirflowFailException, AirflowSkipException

from assize_airflow.command import Command, Outcome, pending_runs
from assize_airflow.planning import experiment_link
from assize_airflow.sitting import SittingTrigger


class LeaderboardLink(BaseOperatorLink):
    """The button on the task that leads to the leaderboard."""

    name = "Leaderboard"

    def get_link(self, operator: BaseOperator, *, ti_key: Any) -> str:
        return getattr(operator, "leaderboard_url", None) or ""


class AssizeOperator(BaseOperator):
    """Runs one command of the binary at a time."""

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.command: Command | None = None

    def run_binary(self, words: list[str], tracking_uri: str, quiet: bool = False) -> Outcome:
        self.command = Command(words, tracking_uri)
        return self.command.run(quiet)

    def on_kill(self) -> None:
        if self.command:
            self.command.stop()


def required(plan: dict[str, Any] | None) -> dict[str, Any]:
    """The plan, or the end of the task: after a plan that failed nothing is done."""
    if plan is None:
        raise AirflowSkipException("there is no plan: see the log of the task plan")
    return plan


def place(plan: dict[str, Any]) -> list[str]:
    """The words that name the task and the experiment."""
    task = ["--task", plan["task"]] if plan["task"] else []
    return [*task, "--experiment", plan["experiment"]]


class CollectOperator(AssizeOperator):
    """Collects one model, or one part of it, on one host."""

    template_fields = ("unit",)

    def __init__(self, *, unit: dict[str, Any], **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.unit = unit

    def execute(self, context: Any) -> dict[str, Any]:
        unit = self.unit
        words = ["collect", "--json", *place(unit), "--models", unit["model"], "--ollama-url", ",".join(unit["urls"])]
        words += unit["words"]
        if not unit["shard"].endswith("/1"):
            words += ["--shard", unit["shard"]]
        outcome = self.run_binary(words, unit["tracking_uri"])
        events = [json.loads(it) for it in outcome.lines if it.startswith("{")]
        summary = next((it for it in events if it.get("event") == "summary"), {})
        error = None
        if outcome.code != 0:
            reasons = [it["error"] for it in events if it.get("status") == "failed" and it.get("error")]
            reason = f" First reason: {reasons[0]}" if reasons else ""
            error = outcome.exception(f"{unit['model']} failed on {unit['host']}", reason)
        report = {"model": unit["model"], "shard": unit["shard"], **counts(summary)}
        report["error"] = str(error) if error else None
        context["ti"].xcom_push(key="outcome", value=report)
        if error:
            raise error
        return report


def counts(summary: dict[str, Any]) -> dict[str, int]:
    return {key: int(summary.get(key, 0)) for key in ("cells", "collected", "skipped", "failed", "undelivered")}


class ExportOperator(AssizeOperator):
    """Says what waits for judges, and writes a blind judge file where a folder is named."""

    template_fields = ("plan",)

    def __init__(self, *, plan: Any, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.plan = plan

    def execute(self, context: Any) -> dict[str, Any]:
        plan = required(self.plan)
        uri, experiment = plan["tracking_uri"], plan["experiment"]
        pending = pending_runs(uri, experiment)
        folder = context["params"].get("export_to")
        self.log.info("%d runs of %s wait for a judge.", pending, experiment)
        result = {"experiment": experiment, "tracking_uri": uri, "pending": pending, "judge_file": None}
        if not folder or pending == 0:
            self.log.info("Judges find them in the queue: assize judge desk --experiment %s --tracking-uri %s", experiment, uri)
            return result
        try:
            result["judge_file"] = self._write(plan, folder, context["run_id"])
        except AirflowException as error:
            raise failed(context, error) from None
        self.log.info("Judge file: %s; apply it with: assize judge apply FILE --tracking-uri %s", result["judge_file"], uri)
        return result

    def _write(self, plan: dict[str, Any], folder: str, run_id: str) -> str:
        from airflow.sdk import ObjectStoragePath

        safe = "".join(it if it.isalnum() or it in "-_." else "-" for it in f"{plan['experiment']}-{run_id}")
        target = ObjectStoragePath(folder) / f"{safe}.json"
        with tempfile.TemporaryDirectory() as scratch:
            file = Path(scratch) / "judge.json"
            words = ["judge", "export", *place(plan), "--out", str(file)]
            outcome = self.run_binary(words, plan["tracking_uri"], quiet=True)
            if outcome.code != 0:
                raise outcome.exception("the judge file cannot be written")
            try:
                target.parent.mkdir(parents=True, exist_ok=True)
                target.write_bytes(file.read_bytes())
            except OSError as error:
                raise AirflowFailException(f"the judge file {target} cannot be written: {error}") from None
        return str(target)


class JudgeOperator(AssizeOperator):
    """Lets a model judge what is pending."""

    template_fields = ("plan",)

    def __init__(self, *, plan: Any, host: str, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.plan, self.host = plan, host

    def execute(self, context: Any) -> dict[str, Any]:
        plan, params = required(self.plan), context["params"]
        if params["judge_mode"] != "auto":
            raise AirflowSkipException("judge_mode is not auto")
        urls = plan["urls"].get(self.host) or next(iter(plan["urls"].values()))
        words = ["judge", "auto", "--json", *place(plan), "--judge", params["judge"], "--ollama-url", ",".join(urls)]
        words += [f"--max-cost={params['max_cost']}"]
        shared = ("--base-url", "--script", "--assume-size", "--jobs", "--timeout", "--retries", "--max-model-b", "--seed")
        words += [it for it in plan["words"] if it.split("=")[0] in shared]
        outcome = self.run_binary(words, plan["tracking_uri"])
        if outcome.code not in (0, 3, 4):
            raise failed(context, outcome.exception(f"{params['judge']} could not judge"))
        result = json.loads(outcome.lines[-1])
        if outcome.code in (3, 4):
            self.log.warning("%d runs are still pending: %s", result["left_pending"], outcome.error())
        return {key: result.get(key) for key in ("sitting", "judged", "left_pending", "verdicts")}


class WaitForSitting(BaseOperator):
    """Waits, without a worker, until the expert tier has judged everything."""

    template_fields = ("plan",)

    def __init__(self, *, plan: Any, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.plan = plan

    def execute(self, context: Any) -> dict[str, Any]:
        plan, params = required(self.plan), context["params"]
        if params["judge_mode"] != "wait":
            raise AirflowSkipException("judge_mode is not wait")
        pending = pending_runs(plan["tracking_uri"], plan["experiment"])
        if pending == 0:
            return {"pending": 0}
        self.log.info("%d runs of %s wait for a judge.", pending, plan["experiment"])
        self.defer(
            trigger=SittingTrigger(plan["tracking_uri"], plan["experiment"], float(params["poll_seconds"])),
            method_name="resume",
            timeout=timedelta(hours=float(params["wait_hours"])),
        )

    def resume(self, context: Any, event: dict[str, Any]) -> dict[str, Any]:
        if event.get("error"):
            raise failed(context, AirflowException(event["error"]))
        return event


class CompareOperator(AssizeOperator):
    """The leaderboard, as the result of the task and behind its link."""

    template_fields = ("plan",)
    operator_extra_links = (LeaderboardLink(),)

    def __init__(self, *, plan: Any, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.plan = plan
        self.leaderboard_url: str | None = None

    def execute(self, context: Any) -> dict[str, Any]:
        plan = required(self.plan)
        words = ["compare", *place(plan), "--split", plan["split"]]
        board = self.run_binary([*words, "--format", "json"], plan["tracking_uri"], quiet=True)
        if board.code != 0:
            raise failed(context, board.exception("there is no leaderboard"))
        shown = self.run_binary([*words, "--format", "md"], plan["tracking_uri"], quiet=True)
        for line in shown.lines:
            self.log.info("%s", line)
        self.leaderboard_url = experiment_link(plan["tracking_uri"], plan["experiment"])
        context["ti"].xcom_push(key="leaderboard_url", value=self.leaderboard_url)
        return board.json()


class SimulateOperator(AssizeOperator):
    """Runs a study of policies and tracks its results."""

    template_fields = ("plan",)
    operator_extra_links = (LeaderboardLink(),)

    def __init__(self, *, plan: Any, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.plan = plan
        self.leaderboard_url: str | None = None

    def execute(self, context: Any) -> dict[str, Any]:
        plan = required(self.plan)
        words = ["simulate", "--json", "--experiment", plan["experiment"], *plan["words"]]
        outcome = self.run_binary(words, plan["tracking_uri"])
        if outcome.code not in (0, 3):
            raise failed(context, outcome.exception("the simulation failed"))
        study = outcome.json()
        self.leaderboard_url = experiment_link(plan["tracking_uri"], plan["experiment"])
        context["ti"].xcom_push(key="leaderboard_url", value=self.leaderboard_url)
        return {"experiment": plan["experiment"], "tracking_uri": plan["tracking_uri"], "results": _results(study)}


def _results(study: dict[str, Any]) -> list[dict[str, Any]]:
    """The figures of each policy under each assumption, without the curves over time."""
    return [
        {"variant": simulation["variant"]}
        | {key: value for key, value in entrant.items() if not isinstance(value, (list, dict))}
        for simulation in study["simulations"]
        for entrant in simulation["entrants"]
    ]


def failed(context: Any, error: Exception) -> Exception:
    """Leaves the message for the last task and returns the exception to raise."""
    context["ti"].xcom_push(key="error", value=str(error))
    return error


def invalid(context: Any, error: Exception) -> AirflowFailException:
    """The end of a task whose input is invalid: another try would not help."""
    failed(context, error)
    return AirflowFailException(str(error))

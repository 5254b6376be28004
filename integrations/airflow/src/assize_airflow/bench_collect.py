"""The DAG `bench_collect`: plan → collect (a task for each model, in the pool of its host) →
export_for_judge → judge (a model, or waiting for a sitting) → compare → finish.

A model that fails does not stop the others; `finish` then fails the run and says which ones.
Groups of tasks for hosts exist when the file is parsed, because Airflow ignores a pool that is
mapped.
"""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from airflow.sdk import DAG, TaskGroup, TriggerRule, task
from airflow.sdk.exceptions import AirflowException

from assize_airflow import config, planning
from assize_airflow.operators import (
    CollectOperator,
    CompareOperator,
    ExportOperator,
    JudgeOperator,
    WaitForSitting,
    failed,
    invalid,
)
from assize_airflow.options import BENCH, COLLECT, InvalidConf, values

HOSTS = config.hosts()
#: The tasks besides the collections.
STEPS = ("plan", "export_for_judge", "judge_auto", "wait_for_sitting", "compare")
PARAMS = {
    it.key: it.param(",".join(host.url for host in HOSTS) if it.key == "ollama_url" else None)
    for it in (*COLLECT, *BENCH)
}


@task
def plan(**context: Any) -> dict[str, Any]:
    """Checks the conf, the tracking server and the pools, and places the models on hosts."""
    conf = context["dag_run"].conf or {}
    try:
        read = values((*COLLECT, *BENCH), context["params"], conf)
        made = planning.make_plan(read, set(conf), HOSTS)
        # The task judge_auto is in the pool of the first host, whether it judges or not.
        used = [it.pool for it in HOSTS if it.name in made["units"] or it == HOSTS[0]]
        planning.check_pools(used)
        planning.check_tracking(made["tracking_uri"])
    except InvalidConf as error:
        raise invalid(context, error) from None
    except AirflowException as error:
        raise failed(context, error) from None
    return made


@task
def models(host: str, plan: dict[str, Any]) -> list[dict[str, Any]]:
    """What is collected on one host."""
    shared = {key: plan[key] for key in ("experiment", "tracking_uri", "task", "words")}
    units = plan["units"].get(host, [])
    return [shared | it | {"host": host, "urls": plan["urls"][host]} for it in units]


@task(trigger_rule=TriggerRule.ALL_DONE)
def finish(plan: dict[str, Any] | None, **context: Any) -> dict[str, Any]:
    """Fails the run where a model or a later step failed, and says why."""
    ti = context["ti"]
    states = ti.get_task_states(dag_id=ti.dag_id, task_ids=list(STEPS), run_ids=[ti.run_id]).get(ti.run_id, {})
    problems = []
    for name in STEPS:
        told = [str(it) for it in _pulled(ti, name, "error")]
        problems += told
        if states.get(name) == "failed" and not told:
            problems.append(f"{name} failed: see its log")
    done: list[dict[str, Any]] = []
    if plan is not None:
        for host, units in plan["units"].items():
            outcomes = _pulled(ti, f"{host}.collect", "outcome")
            done += outcomes
            problems += [it["error"] for it in outcomes if it["error"]]
            reported = {(it["model"], it["shard"]) for it in outcomes}
            missing = [it for it in units if (it["model"], it["shard"]) not in reported]
            problems += [
                f"{it['model']} on {host} did not end: see the log of {host}.collect" for it in missing
            ]
    totals = {key: sum(it[key] for it in done) for key in ("cells", "collected", "skipped", "failed")}
    if problems:
        raise failed(context, AirflowException("\n".join(problems)))
    return totals


def _pulled(ti: Any, task_id: str, key: str) -> list[Any]:
    """What a task left, or all instances of a mapped task."""
    found = ti.xcom_pull(task_ids=[task_id], key=key)
    return [it for it in found or [] if it is not None]


def build() -> DAG:
    with DAG(
        dag_id="bench_collect",
        description="Assize: collect a grid, have it judged, and rank the (model, prompt) pairs",
        schedule=None,
        catchup=False,
        params=PARAMS,
        tags=["assize"],
        doc_md=__doc__,
    ) as dag:
        planned = plan()
        collected = []
        for host in HOSTS:
            with TaskGroup(group_id=host.name):
                units = models(host.name, planned)
                more = {"queue": host.queue} if host.queue else {}
                collected.append(
                    CollectOperator.partial(
                        task_id="collect",
                        pool=host.pool,
                        retries=config.retries(),
                        retry_delay=timedelta(seconds=config.retry_seconds()),
                        map_index_template="{{ task.unit['model'] }} {{ task.unit['shard'] }}",
                        **more,
                    ).expand(unit=units)
                )
        late = {"trigger_rule": TriggerRule.ALL_DONE, "plan": planned}
        export = ExportOperator(task_id="export_for_judge", **late)
        judge = JudgeOperator(task_id="judge_auto", host=HOSTS[0].name, pool=HOSTS[0].pool, **late)
        wait = WaitForSitting(task_id="wait_for_sitting", **late)
        board = CompareOperator(task_id="compare", **late)
        end = finish(planned)
        collected >> export >> [judge, wait] >> board >> end
    return dag


bench_collect = build()

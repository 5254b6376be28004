"""The DAG `sim_run`: plan → simulate → finish. It lets policies choose for personas with known
tastes, tracks the results as an experiment, and returns the figures of every policy."""

from __future__ import annotations

from typing import Any

from airflow.sdk import DAG, TriggerRule, task
from airflow.sdk.exceptions import AirflowException

from assize_airflow import config, planning
from assize_airflow.operators import SimulateOperator, failed, invalid
from assize_airflow.options import SIMULATE, STUDY, InvalidConf, values


@task
def plan(**context: Any) -> dict[str, Any]:
    """Checks the conf and the tracking server."""
    try:
        read = values((*SIMULATE, *STUDY), context["params"], context["dag_run"].conf or {})
        uri = config.tracking_uri(read["mlflow_url"])
        planning.check_tracking(uri)
    except InvalidConf as error:
        raise invalid(context, error) from None
    except AirflowException as error:
        raise failed(context, error) from None
    words = [word for it in SIMULATE if it.key != "sensitivity" for word in it.words(read[it.key])]
    if not read["sensitivity"]:
        words.append("--no-sensitivity")
    moment = context["dag_run"].run_after.strftime("%Y%m%d-%H%M%S")
    return {"experiment": read["experiment"] or f"simulation-{moment}", "tracking_uri": uri, "words": words}


@task(trigger_rule=TriggerRule.ALL_DONE)
def finish(**context: Any) -> None:
    """Fails the run where a step failed, and says why."""
    ti = context["ti"]
    for name in ("plan", "simulate"):
        error = ti.xcom_pull(task_ids=name, key="error")
        if error:
            raise failed(context, AirflowException(error))
    if ti.xcom_pull(task_ids="simulate") is None:
        raise failed(context, AirflowException("the simulation did not end: see the log of simulate"))


def build() -> DAG:
    with DAG(
        dag_id="sim_run",
        description="Assize: compare online policies by simulation",
        schedule=None,
        catchup=False,
        params={it.key: it.param() for it in (*SIMULATE, *STUDY)},
        tags=["assize"],
        doc_md=__doc__,
    ) as dag:
        SimulateOperator(task_id="simulate", plan=plan()) >> finish()
    return dag


sim_run = build()

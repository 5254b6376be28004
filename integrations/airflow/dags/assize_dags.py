"""Makes the DAGs of assize-airflow known to Airflow: copy this file into the DAGs folder."""

from assize_airflow.bench_collect import bench_collect
from assize_airflow.sim_run import sim_run

__all__ = ["bench_collect", "sim_run"]

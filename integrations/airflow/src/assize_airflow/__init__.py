"""Assize's collections and simulations as Airflow DAGs.

`bench_collect` and `sim_run` are the DAGs; `operators` has the tasks that run the binary;
`options` the keys of a collection; `config` what a machine's environment sets.
"""

__version__ = "0.1.0"

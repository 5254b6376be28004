#!/bin/sh
# Makes a Python environment with MLflow's client where there is none, and prints its python.
# Kept for all checkouts of this user, because it is large and slow to fetch.
set -eu
venv="${XDG_CACHE_HOME:-$HOME/.cache}/assize/mlflow-venv"
mkdir -p "$(dirname "$venv")"
exec 9>"$venv.lock"
if command -v flock >/dev/null; then flock 9; fi
if ! "$venv/bin/python" -c 'import mlflow, pandas' >/dev/null 2>&1; then
    python3 -m venv "$venv" >&2
    "$venv/bin/pip" install --quiet mlflow-skinny pandas >&2
    "$venv/bin/python" -c 'import mlflow, pandas' >&2
fi
echo "$venv/bin/python"

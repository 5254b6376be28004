#!/usr/bin/env bash
# Creates a Python environment with the given packages once, outside the checkout, and prints the
# path of its python. Usage: python-env.sh NAME PACKAGE…  Exits with 1 and the reason on failure.
# Files among the words (-c FILE) are named from the root of the checkout; a change of one makes
# the environment anew.
set -euo pipefail
name=$1
shift
cd "$(dirname "${BASH_SOURCE[0]}")/.."
sums=$(for word in "$@"; do if [ -f "$word" ]; then cksum <"$word"; fi; done)
wanted="$*${sums:+ $sums}"
venv="${ASSIZE_CACHE_DIR:-${XDG_CACHE_HOME:-$HOME/.cache}/assize}/python/$name"
made="$venv/.made-with"
mkdir -p "$(dirname "$venv")"
# Tests run in parallel: one creates the environment, the others wait for it.
exec 9>"$venv.lock"
if command -v flock >/dev/null; then flock 9; fi
if [ "$(cat "$made" 2>/dev/null)" != "$wanted" ]; then
  command -v python3 >/dev/null || { echo "there is no python3" >&2; exit 1; }
  rm -rf "$venv"
  { python3 -m venv "$venv" && "$venv/bin/python" -m pip install -q --disable-pip-version-check "$@"; } >&2 ||
    { rm -rf "$venv"; echo "cannot install $*" >&2; exit 1; }
  echo "$wanted" >"$made"
fi
echo "$venv/bin/python"

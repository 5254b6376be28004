#!/bin/sh
# Runs every benchmark together with its baseline. The figures are meaningful only on an idle
# machine. `computed` installs promptfoo from npm into the cache folder that the tests use. The baselines of the statistics (NumPy, SciPy) and of the policies (MABWiser, Vowpal Wabbit) are
# installed into a virtual environment.
set -eu
cd "$(dirname "$0")/.."
venv="${XDG_CACHE_HOME:-$HOME/.cache}/assize/bench-venv"
if [ ! -x "$venv/bin/python" ]; then
  python3 -m venv "$venv" && "$venv/bin/python" -m pip install -q numpy scipy mabwiser vowpalwabbit || rm -rf "$venv"
fi
export ASSIZE_BENCH_PYTHON="$venv/bin/python"
# The latencies of the policies are measured with real-time priority where that is permitted, so that
# the programs that share the machine do not count.
realtime=""
if chrt -f 10 true 2>/dev/null; then realtime="chrt -f 10"; fi
for bench in "--bench harness" "--bench auto" "--bench computed" "--bench mlflow" "--bench policies" "-p assize-store" "-p assize-stats" "-p assize-policy" "-p assize-llama"; do
  echo "== $bench"
  # shellcheck disable=SC2086
  cargo bench --locked $bench --no-run
  case $bench in
    "--bench policies") priority=$realtime ;;
    *) priority="" ;;
  esac
  # shellcheck disable=SC2086
  $priority cargo bench --locked $bench
done
echo "== bench/serve.py"
python3 bench/serve.py "${CARGO_TARGET_DIR:-target}/release/assize"

#!/usr/bin/env bash
# Counts the source files in which each walkthrough of ARCHITECTURE.md executes code, with Callgrind.
# Usage: walkthrough-files.sh BINARY   (a debug build; needs valgrind, curl and python3; a few minutes)
set -euo pipefail
binary=$(realpath "$1")
root=$(realpath "$(dirname "$0")/..")
out=$(mktemp -d)
server=""
trap 'kill "$server" 2>/dev/null || true; rm -rf "$out"' EXIT
cd "$out"
cat > script.json <<'JSON'
{"models": {
  "m": {"parameter_count": 500000000, "responses": [{"prompt": "*", "scenario": "*", "texts": ["Call the school office in your 09:30 break.", "Buy milk now."]}]},
  "n": {"parameter_count": 500000000, "responses": [{"prompt": "*", "scenario": "*", "texts": ["Take a walk and then pay the bill.", "Rest."]}]}}}
JSON
measured() {
  valgrind -q --tool=callgrind --callgrind-out-file="$1.cg" "$binary" "${@:2}" > "$1.out" 2> "$1.err"
}
measured collect collect --models scripted:m,scripted:n --prompts v1,v2-mentor --n-tips 2 --script script.json --experiment e
measured export judge export --experiment e --no-anchors --out judge.json
python3 - <<'PYTHON'
import json

file = json.load(open("judge.json"))
for number, case in enumerate(file["cases"]):
    case["scores"] = {name: 1 + number % 5 if value is None else value for name, value in case["scores"].items()}
json.dump(file, open("judge.json", "w"))
PYTHON
measured apply judge apply judge.json --judge-kind human --judged-by ana
measured compare compare --experiment e --incumbent scripted:m/v1
measured sync sync --from sqlite:.assize/assize.db --to sqlite:copy.db --experiment e

# The server is measured from the request on: the counters are reset after its start.
valgrind -q --tool=callgrind --callgrind-out-file=serve.cg \
  "$binary" serve --port 0 --open-loopback --allow script.json > serve.out 2> serve.err &
server=$!
url=""
until [ -n "$url" ] && curl -sf "$url/health" > health.out; do
  sleep 1
  url=$(grep -ohE 'http://127\.0\.0\.1:[0-9]+' serve.out serve.err | head -1 || true)
done
sleep 6
post() { curl -sf -X POST -H 'content-type: application/json' -d "$2" "$url$1"; }
callgrind_control -z "$server" > control.out
post /api/2.0/mlflow/runs/search '{"max_results":10,"experiment_ids":["1"],"filter":"params.model = '"'scripted:m'"'","order_by":["metrics.composite DESC"]}' > search.out
callgrind_control -d search "$server" > control.out
callgrind_control -z "$server" > control.out
post /api/bench/run '{"models":["scripted:m"],"prompts":["v1"],"n_tips":1,"script":"script.json","experiment":"api"}' > run.out
until curl -sf "$url/api/bench/jobs" | grep -qE '"(done|failed)"'; do sleep 1; done
callgrind_control -d run "$server" > control.out

ROOT="$root" python3 - <<'PYTHON'
import os
import re


def executed(path):
    """The project's files that have an executed line in a Callgrind profile."""
    names, current, called, files = {}, None, False, set()
    for line in open(path, errors="replace"):
        if place := re.match(r"(c?f[lie])=\((\d+)\)(?: (.*))?", line):
            kind, number, name = place.groups()
            names.setdefault(number, name)
            current = number if kind in ("fl", "fi", "fe") else current
        elif line.startswith("calls="):
            called = True  # The next line is the cost of the called function.
        elif re.match(r"[\d+*-]", line):
            files |= set() if called else {names[current]}
            called = False
    ours = (re.search(r"(?:crates/[a-z-]+/)?src/.*\.rs$", it) for it in files if it and "/registry/" not in it)
    return {it.group() for it in ours if it and os.path.exists(os.path.join(os.environ["ROOT"], it.group()))}


for name, profiles in {
    "collect": ["collect.cg"],
    "judge export, judge apply": ["export.cg", "apply.cg"],
    "compare": ["compare.cg"],
    "sync": ["sync.cg"],
    "runs/search": ["serve.cg.1"],
    "POST /api/bench/run": ["serve.cg.2"],
}.items():
    print(f"{len(set().union(*map(executed, profiles))):4}  {name}")
PYTHON

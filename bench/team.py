"""Measures `assize serve` over a real MLflow server that holds 10,000 judged runs.

| figure | target |
|---|---|
| first complete board after the start, without a copy | <= 60 s |
| later boards | <= 300 ms |
| board after a change | <= 300 ms |
| a verdict from another machine is visible | <= 10 s |
| start with a copy, to the first board | - |

Logging 10,000 runs over REST would take minutes, so 200 cells are collected and judged by Assize,
and their rows and files are then copied in MLflow's own SQLite database and artifact folder, each
with a run id, a cell key and a scenario of its own, while the server is stopped.

Usage: PYTHON_WITH_MLFLOW bench/team.py path/to/assize   (SCALE=10 does a tenth of the work)
"""

import hashlib
import json
import os
import shutil
import socket
import sqlite3
import subprocess
import sys
import tempfile
import time
import urllib.request
import uuid

ASSIZE = os.path.abspath(sys.argv[1])
RUNS = 10_000 // int(os.environ.get("SCALE", "1"))
MODELS = [f"m{number}" for number in range(5)]
PROMPTS = [f"p{number}" for number in range(5)]
SCENARIOS = 8
MODEL_TABLES = ["params", "tags", "metrics", "latest_metrics"]


def main():
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        os.makedirs("elsewhere")
        write_task("elsewhere")
        server = Mlflow()
        try:
            fill(server)
            measure(server)
        finally:
            server.stop()


class Mlflow:
    """A server that ends with the benchmark."""

    def __init__(self):
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self.port = free.getsockname()[1]
        self.url = f"http://127.0.0.1:{self.port}"
        self.start()

    def start(self):
        self.process = subprocess.Popen(
            [sys.executable, "-m", "mlflow", "server", "--host", "127.0.0.1", "--port",
             str(self.port), "--workers", "4", "--backend-store-uri", "sqlite:///mlflow.db",
             "--artifacts-destination", os.path.abspath("artifacts")],
            stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True,
            env={**os.environ, "MLFLOW_DISABLE_TELEMETRY": "true",
                 "MLFLOW_SERVER_ENABLE_JOB_EXECUTION": "false"})
        wait(180, lambda: get(f"{self.url}/health"))

    def stop(self):
        os.killpg(self.process.pid, 15)
        self.process.wait()


def write_task(place):
    os.makedirs(f"{place}/task/prompts")
    write(f"{place}/task/task.toml", 'name = "team"\nscenarios = "scenarios.jsonl"\n')
    levels = "".join(f'{number} = "{number}"\n' for number in range(1, 6))
    write(f"{place}/task/rubric.md",
          '+++\nid = "team-v1"\ncomposite = "worth + 2*ok"\n[[criteria]]\nname = "worth"\nmin = 1\n'
          f'max = 5\n[criteria.anchors]\n{levels}[[flags]]\nname = "ok"\n+++\nJudge it.\n')
    for prompt in PROMPTS:
        write(f"{place}/task/prompts/{prompt}.md", f"{prompt}: about {{{{ topic }}}}.\n")
    scenarios = [{"id": f"s{number}", "split": "selection", "topic": f"topic {number}"}
                 for number in range(SCENARIOS)]
    write(f"{place}/task/scenarios.jsonl", "\n".join(map(json.dumps, scenarios)))
    answer = {"prompt": "*", "scenario": "*",
              "texts": ["Walk for ten minutes and note what you saw.", "Drink a glass of water."]}
    models = {model: {"parameter_count": 1, "responses": [answer]} for model in MODELS}
    write(f"{place}/script.json", json.dumps({"models": models}))


def fill(server):
    began = time.monotonic()
    collect(server, "e", MODELS, PROMPTS)
    judge(server, "e")
    server.stop()
    multiply()
    server.start()
    print(f"filled {RUNS} runs in {time.monotonic() - began:.0f} s")


def collect(server, experiment, models, prompts):
    models = ",".join(f"scripted:{model}" for model in models)
    run(server, "collect", "--task", "task", "--models", models, "--prompts", ",".join(prompts),
        "--script", "script.json", "--n-tips", "2", "--experiment", experiment)


def judge(server, experiment):
    run(server, "judge", "export", "--experiment", experiment, "--out", "judge.json", "--no-anchors")
    with open("elsewhere/judge.json") as file:
        content = json.load(file)
    for number, case in enumerate(content["cases"]):
        case["scores"] = {"worth": 1 + number % 5, "ok": number % 3 > 0}
        case["rationale"] = "It names one thing to do and says why it fits the moment."
    write("elsewhere/judge.json", json.dumps(content))
    run(server, "judge", "apply", "judge.json", "--judge-kind", "human", "--judged-by", "Ana")


def run(server, *words):
    done = subprocess.run([ASSIZE, *words, "--tracking-uri", server.url], cwd="elsewhere",
                          capture_output=True, text=True)
    assert done.returncode == 0, f"{words}: {done.stdout}{done.stderr}"


def multiply():
    """Copies the judged runs, with their files, until there are enough."""
    base = sqlite3.connect("mlflow.db")
    base.row_factory = sqlite3.Row
    experiment = base.execute("SELECT experiment_id FROM experiments WHERE name = 'e'").fetchone()[0]
    runs = base.execute("SELECT * FROM runs WHERE experiment_id = ?", [experiment]).fetchall()
    rows = {table: {} for table in MODEL_TABLES}
    for table in MODEL_TABLES:
        for row in base.execute(f"SELECT * FROM {table}"):
            rows[table].setdefault(row["run_uuid"], []).append(dict(row))
    for copy in range(1, RUNS // len(runs)):
        for original in runs:
            old, new = original["run_uuid"], uuid.uuid4().hex
            record = dict(original)
            record.update(run_uuid=new, start_time=original["start_time"] + copy,
                          artifact_uri=original["artifact_uri"].replace(old, new))
            insert(base, "runs", record)
            for table in MODEL_TABLES:
                for row in rows[table].get(old, []):
                    insert(base, table, {**row, "run_uuid": new, **changed(table, row, copy)})
            shutil.copytree(f"artifacts/{experiment}/{old}", f"artifacts/{experiment}/{new}",
                            copy_function=os.link)
    base.commit()
    base.close()


def changed(table, row, copy):
    key = row["key"]
    if (table, key) == ("params", "scenario"):
        return {"value": f"{row['value']}-{copy}"}
    if table == "tags" and key in ("cell_key", "scenario_sha256"):
        return {"value": hashlib.sha256(f"{row['value']} {copy}".encode()).hexdigest()}
    return {}


def insert(base, table, row):
    marks = ", ".join("?" * len(row))
    base.execute(f"INSERT INTO {table} ({', '.join(row)}) VALUES ({marks})", list(row.values()))


def measure(server):
    os.makedirs("serve")
    # The task's files are not here, so that the board does not look for its scenarios.
    began = time.monotonic()
    assize, url = serve(server)
    try:
        wait(600, lambda: json.loads(get(f"{url}/health"))["copy"]["complete"])
        first = board(url)
        total = sum(row["n_runs"] if "n_runs" in row else 0 for row in first["rows"])
        print(f"first complete board: {time.monotonic() - began:.1f} s after the start "
              f"(target 60 s), {len(first['rows'])} pairs, {total or RUNS} runs")
        # For half a minute, while texts are read in the background.
        times = sorted(timed(lambda: board(url), 0.2) for _ in range(150))
        print(f"later boards: median {times[75]:.0f} ms, slowest {times[-1]:.0f} ms (target 300 ms)")
        for number in range(3):
            late = f"late{number}"
            collect(server, late, MODELS[:1], PROMPTS[:1])
            wait(60, lambda: counts(url, late) == (SCENARIOS, 0))
            judge(server, late)
            applied = time.monotonic()
            wait(60, lambda: counts(url, late) == (0, SCENARIOS))
            visible = time.monotonic() - applied
            print(f"verdicts from elsewhere visible after {visible:.1f} s (target 10 s)")
            print(f"board after a change: {timed(lambda: board(url)):.0f} ms (target 300 ms)")
    finally:
        assize.terminate()
        assize.wait()
    began = time.monotonic()
    assize, url = serve(server)
    board(url)
    print(f"start with a copy: first board after {time.monotonic() - began:.2f} s")
    assize.terminate()
    assize.wait()


def serve(server):
    process = subprocess.Popen(
        [ASSIZE, "serve", "--port", "0", "--open-loopback", "--json", "--tracking-uri", server.url],
        cwd="serve", stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
    return process, json.loads(process.stdout.readline())["url"]


def board(url):
    return json.loads(get(f"{url}/api/bench/leaderboard/e"))


def counts(url, experiment):
    listed = json.loads(get(f"{url}/api/bench/experiments"))["experiments"]
    return next(((it["pending"], it["judged"]) for it in listed if it["name"] == experiment), None)


def timed(work, pause_s=0):
    time.sleep(pause_s)
    began = time.monotonic()
    work()
    return (time.monotonic() - began) * 1000


def wait(limit, is_so):
    began = time.monotonic()
    while True:
        try:
            if is_so():
                return
        except OSError:
            pass
        assert time.monotonic() - began < limit, "it takes too long"
        time.sleep(0.1)


def get(url):
    with urllib.request.urlopen(url, timeout=120) as answer:
        return answer.read()


def write(path, text):
    with open(path, "w") as file:
        file.write(text)


if __name__ == "__main__":
    main()

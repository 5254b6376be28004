"""Measures `assize serve` from outside, over an experiment of 100,000 runs.

| figure | target | baseline in the same run |
|---|---|---|
| leaderboard JSON, first answer after the start | <= 300 ms | `assize compare --json` on the command line |
| leaderboard JSON, first answer after a change | <= 300 ms | the same |
| leaderboard JSON, warm, requests/s | >= 2,000 | Python's http.server with the same bytes as a file |
| experiments page, warm | <= 20 ms | the same |
| memory with 500 watchers of a job's events | < 100 MB | the server without them |

Usage: python3 bench/serve.py path/to/assize   (needs wrk; SCALE=10 does a tenth of the work)
"""

import json
import os
import re
import shutil
import socket
import subprocess
import sys
import tempfile
import time
import urllib.request
import zlib

ASSIZE = os.path.abspath(sys.argv[1])
SCALE = int(os.environ.get("SCALE", "1"))
SCENARIOS, MODELS = 1000 // SCALE, 50


def main():
    if not shutil.which("wrk"):
        sys.exit("SKIPPED: there is no wrk (Debian: apt-get install wrk)")
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        fill()
        server = subprocess.Popen(
            [ASSIZE, "serve", "--port", "0", "--open-loopback", "--json", "--allow", "slow.json"],
            stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, env=environment())
        try:
            url = json.loads(server.stdout.readline())["url"]
            measure(url, server.pid)
        finally:
            server.terminate()
            server.wait()


def environment():
    return {**os.environ, "ASSIZE_CACHE_DIR": os.path.abspath("cache"), "MLFLOW_TRACKING_URI": ""}


def assize(*words):
    started = time.perf_counter()
    done = subprocess.run([ASSIZE, *words], env=environment(), capture_output=True, text=True)
    if done.returncode != 0:
        sys.exit(f"{words}: {done.stderr[-2000:]}")
    return time.perf_counter() - started, done.stdout


def fill():
    assize("init", "task")
    path = "task/scenarios.toml"
    # Calibration cases name scenarios that are replaced here.
    os.remove("task/anchors.toml")
    with open(path) as file:
        first = "[[scenario]]" + file.read().split("[[scenario]]")[1].split("\n#")[0]
    with open(path, "w") as file:
        for n in range(SCENARIOS):
            file.write(re.sub('id = "[^"]*"', f'id = "s{n}"', first, count=1) + "\n")
    models = {f"m{n}": {"parameter_count": 5, "responses": [
        {"prompt": "*", "scenario": "*", "texts": [f"Tip {n}."]}]} for n in range(MODELS)}
    write("script.json", {"models": models})
    write("slow.json", {"models": {"slow": {"parameter_count": 5, "responses": [
        {"prompt": "*", "scenario": "*", "texts": ["Tip."], "latency_ms": 1000}]}}})
    names = ",".join(f"scripted:m{n}" for n in range(MODELS))
    assize("collect", "--task", "task", "--models", names, "--prompts", "v1,v2-mentor",
           "--script", "script.json", "--n-tips", "1", "--experiment", "big", "--json")
    assize("judge", "export", "--task", "task", "--experiment", "big", "--out", "judge.json",
           "--no-anchors")
    with open("judge.json") as file:
        filled = json.load(file)
    for case in filled["cases"]:
        for name, value in case["scores"].items():
            if value is None:
                case["scores"][name] = 1 + zlib.crc32(case["case"].encode()) % 5
    write("judge.json", filled)
    assize("judge", "apply", "judge.json", "--judge-kind", "human")


def write(path, value):
    with open(path, "w") as file:
        json.dump(value, file)


def get(url):
    started = time.perf_counter()
    with urllib.request.urlopen(url) as answer:
        body = answer.read()
    return (time.perf_counter() - started) * 1000, body


def rate(url):
    said = subprocess.run(["wrk", "-t2", "-c16", "-d5", url], capture_output=True, text=True)
    return float(re.search(r"Requests/sec:\s+([\d.]+)", said.stdout)[1])


def memory_mb(pid):
    with open(f"/proc/{pid}/status") as file:
        return int(re.search(r"VmRSS:\s+(\d+)", file.read())[1]) / 1024


def measure(url, pid):
    board_url = f"{url}/api/bench/leaderboard/big"
    # The client's own first request takes some milliseconds.
    get(f"{url}/health")
    first_ms, body = get(board_url)
    command_s, _ = assize("compare", "--experiment", "big", "--json")
    print(f"leaderboard, first answer after the start: {first_ms:.0f} ms (target <= 300); "
          f"assize compare {command_s * 1000:.0f} ms, ratio {first_ms / command_s / 1000:.2f}")
    warm = rate(board_url)
    baseline = file_server_rate(body)
    print(f"leaderboard, warm: {warm:.0f} requests/s of {len(body)} bytes (target >= 2,000); "
          f"Python's http.server with the same bytes {baseline:.0f}/s, ratio {warm / baseline:.1f}")
    get(f"{url}/")
    time.sleep(1)
    page_ms = min(get(f"{url}/")[0] for _ in range(20))
    print(f"experiments page, warm: {page_ms:.1f} ms (target <= 20)")
    _, listed = assize("runs", "list", "--experiment", "big", "--limit", "1", "--json")
    run = json.loads(listed)["runs"][0]["run_id"]
    before = memory_mb(pid)
    changed_ms = sorted(after_change(url, board_url, run, n) for n in range(15))[7]
    print(f"leaderboard, first answer after a change: {changed_ms:.0f} ms, median of 15 "
          f"(target <= 300); ratio {changed_ms / command_s / 1000:.2f}")
    quiet = memory_mb(pid)
    watchers(url)
    print(f"memory: {before:.0f} MB after one board, {quiet:.0f} MB after 15 more, with 500 "
          f"watchers {memory_mb(pid):.0f} MB (target < 100)")


def after_change(url, board_url, run, n):
    post(f"{url}/api/2.0/mlflow/runs/set-tag", {"run_id": run, "key": "note", "value": str(n)})
    return get(board_url)[0]


def post(url, value):
    request = urllib.request.Request(url, json.dumps(value).encode(),
                                     {"Content-Type": "application/json"})
    with urllib.request.urlopen(request) as answer:
        return answer.read()


def file_server_rate(body):
    os.mkdir("files")
    with open("files/board.json", "wb") as file:
        file.write(body)
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    server = subprocess.Popen(
        [sys.executable, "-m", "http.server", str(port), "--bind", "127.0.0.1", "-d", "files"],
        stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    time.sleep(1)
    try:
        return rate(f"http://127.0.0.1:{port}/board.json")
    finally:
        server.terminate()
        server.wait()


def watchers(url):
    """Opens 500 streams of a job that runs for a while; they stay open until the end."""
    fields = {"models": ["scripted:slow"], "script": "slow.json", "experiment": "watched",
              "n_tips": 1, "n_scenarios": 8, "prompts": ["v1"]}
    request = urllib.request.Request(f"{url}/api/bench/run", json.dumps(fields).encode(),
                                     {"Content-Type": "application/json"})
    job = json.load(urllib.request.urlopen(request))["job_id"]
    host, port = url.removeprefix("http://").split(":")
    streams = []
    for _ in range(500):
        stream = socket.create_connection((host, int(port)))
        stream.sendall(f"GET /api/bench/jobs/{job}/events HTTP/1.1\r\nHost: {host}:{port}\r\n\r\n".encode())
        streams.append(stream)
    time.sleep(2)
    heard = 0
    for stream in streams:
        stream.settimeout(5)
        heard += b"event: " in stream.recv(4096)
    print(f"watchers: {heard} of 500 hear of the job")
    main.streams = streams


main()

"""Every line of filters.txt: the answers of a real MLflow server, asked of ours.

Where a real server silently accepts an invalid filter, or fails with a 500, ours refuses with a
400; STRICTER lists those lines, and docs/mlflow.md describes them.
"""

import ast
import os
import sys

import requests

URI = os.environ["MLFLOW_TRACKING_URI"] + "/api/2.0/mlflow/"
HEADERS = {"Authorization": "Bearer " + os.environ["MLFLOW_TRACKING_TOKEN"]}
STRICTER = [
    "{'run_view_type': 'BAD'} ''",
    "''  ['metrics.acc', 'metrics.acc']",
]


def post(path, body):
    answer = requests.post(URI + path, json=body, headers=HEADERS)
    return answer.status_code, answer.json()


def made(path, body):
    status, answer = post(path, body)
    assert status == 200, answer
    return answer


# Experiment 1 stays empty: a line of the file asks for it.
made("experiments/create", {"name": "empty"})
EXPERIMENT = made("experiments/create", {"name": "filters"})["experiment_id"]
RUNS = {
    "a": ({"acc": 0.1, "my metric": 1}, {"lr": "0.1"}, {"team": "Alpha", "dot.key": "1"}),
    "b": ({"acc": 0.9}, {"lr": "0.2"}, {"team": "beta", "q": "it's"}),
    "c": ({"acc": "NaN"}, {}, {}),
    "d": ({"acc": "Infinity"}, {"lr": "10"}, {"team": "alpha"}),
    "e": ({"acc": "-Infinity"}, {"lr": "9"}, {"team": ""}),
}
IDS = {}
for number, (name, (metrics, params, tags)) in enumerate(RUNS.items(), 1):
    body = {"experiment_id": EXPERIMENT, "run_name": name, "start_time": number * 1000}
    IDS[name] = made("runs/create", body)["run"]["info"]["run_id"]
    body = {
        "run_id": IDS[name],
        "metrics": [{"key": k, "value": v, "timestamp": 1} for k, v in metrics.items()],
        "params": [{"key": k, "value": v} for k, v in params.items()],
        "tags": [{"key": k, "value": v} for k, v in tags.items()],
    }
    made("runs/log-batch", body)
BY_ID = "".join(sorted(IDS, key=IDS.get))


def literal(text):
    """The Python literal that a text starts with, and the rest of it."""
    quote = text[0]
    if quote in "'\"":
        end = 1
        while text[end] != quote:
            end += 2 if text[end] == "\\" else 1
    else:
        end = text.index({"{": "}", "[": "]"}[quote])
        while True:
            try:
                ast.literal_eval(text[: end + 1])
                break
            except SyntaxError:
                end = text.index({"{": "}", "[": "]"}[quote], end + 1)
    return ast.literal_eval(text[: end + 1]), text[end + 1 :].strip()


def question(line):
    """The request of a line, and the answer that is expected."""
    body, rest = {"experiment_ids": [EXPERIMENT]}, line
    while not rest.startswith("->"):
        value, rest = literal(rest)
        if isinstance(value, dict):
            body.update(value)
        elif isinstance(value, list):
            body["order_by"] = value
        else:
            for name in "ab":
                value = value.replace("<id>", IDS[name], 1)
            body["filter"] = value
    return body, rest[2:].strip()


def check(line):
    body, expected = question(line)
    status, answer = post("runs/search", body)
    if status == 200:
        got = "".join(run["info"]["run_name"] for run in answer.get("runs", []))
    else:
        got = f"{status} {answer['error_code']}"
    is_stricter = any(line.replace(" ", "").startswith(it.replace(" ", "") + "->") for it in STRICTER)
    if is_stricter:
        return got == "400 INVALID_PARAMETER_VALUE", got
    if body.get("order_by") in (["run_id ASC"], ["artifact_uri"]):
        expected = BY_ID
    if expected.startswith(("400 ", "500 ")):
        expected = " ".join(expected.split()[:2]).rstrip(":")
    return got == expected, got


checked, wrong = 0, []
for line in open(sys.argv[1], encoding="utf-8"):
    if "->" not in line or line[0] not in "'\"{":
        continue
    checked += 1
    fine, got = check(line.rstrip("\n"))
    if not fine:
        wrong.append(f"{line.rstrip()}   GOT {got!r}")
print("\n".join(wrong))
print(f"filters: {checked} lines, {len(wrong)} wrong")
assert checked > 120 and not wrong

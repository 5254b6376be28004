"""Where models are placed, what is passed on, and what is refused."""

from __future__ import annotations

import json
import threading
from http.server import BaseHTTPRequestHandler, HTTPServer

import pytest

from assize_airflow import planning
from assize_airflow.bench_collect import bench_collect
from assize_airflow.config import hosts_from
from assize_airflow.options import BENCH, COLLECT, InvalidConf, values

TWO = hosts_from("gpu-a=http://a:11434,gpu-b=http://b:11434/")


def plan(conf, hosts=TWO, tags=None):
    default = {"ollama_url": ",".join(it.url for it in hosts)}
    read = values((*COLLECT, *BENCH), bench_collect.params.dump() | default | conf, conf)
    return planning.make_plan(read, set(conf), hosts, tags or (lambda _: set()))


def placed(made):
    return {host: [it["model"] for it in units] for host, units in made["units"].items()}


def test_hosts_are_read_in_both_forms() -> None:
    assert [(it.name, it.url, it.pool, it.queue) for it in TWO] == [
        ("gpu-a", "http://a:11434", "assize-gpu-a", None),
        ("gpu-b", "http://b:11434", "assize-gpu-b", None),
    ]
    (one,) = hosts_from('{"x": {"ollama_url": "http://x:1", "pool": "p", "queue": "q"}}')
    assert (one.pool, one.queue) == ("p", "q")
    assert [it.name for it in hosts_from("")] == ["local"]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("gpu-a", "'gpu-a' is not NAME=URL"),
        ("a=gpu:1", "the address of host 'a' is 'gpu:1': use http://HOST:PORT"),
        ("a=http://x,b=http://x", "gives http://x to two hosts"),
        ("a=http://x,a=http://y", "names the host 'a' twice"),
        ("a b=http://x", "'a b' is not a valid host name"),
        ("{", "is not valid JSON"),
        ('{"a": {"url": "http://x"}}', "unknown key 'url'"),
    ],
)
def test_invalid_hosts_are_named(text, message) -> None:
    with pytest.raises(ValueError, match="ASSIZE_HOSTS") as problem:
        hosts_from(text)
    assert message in str(problem.value)


def test_models_are_spread_over_the_hosts() -> None:
    made = plan({"models": "scripted:a,scripted:b,scripted:c"})
    assert placed(made) == {"gpu-a": ["scripted:a", "scripted:c"], "gpu-b": ["scripted:b"]}
    assert made["urls"] == {"gpu-a": ["http://a:11434"], "gpu-b": ["http://b:11434"]}


def test_a_model_goes_where_it_is() -> None:
    having = {"http://a:11434": {"m:1", "n:latest"}, "http://b:11434": {"m:1"}}
    made = plan({"models": "n,m:1"}, tags=having.get)
    assert placed(made) == {"gpu-a": ["n"], "gpu-b": ["m:1"]}


def test_a_host_that_does_not_answer_is_left_out() -> None:
    made = plan({"models": "m:1,m:2"}, tags=lambda url: set() if "b:" in url else None)
    assert placed(made) == {"gpu-a": [], "gpu-b": ["m:1", "m:2"]}
    with pytest.raises(InvalidConf, match="no Ollama host answers at http://a:11434, http://b:11434"):
        plan({"models": "m:1"}, tags=lambda _: None)


def test_shards_of_one_model_use_both_hosts() -> None:
    made = plan({"models": "scripted:a", "shards": 3})
    assert [it["shard"] for it in made["units"]["gpu-a"]] == ["1/3", "3/3"]
    assert [it["shard"] for it in made["units"]["gpu-b"]] == ["2/3"]


def test_an_address_without_a_pool_is_refused() -> None:
    with pytest.raises(InvalidConf, match=r"http://c:1, which is not in ASSIZE_HOSTS .* gpu-a \(http://a:11434\)"):
        plan({"models": "m", "ollama_url": "http://c:1"})
    assert list(plan({"models": "scripted:m", "ollama_url": ["http://b:11434"]})["units"]) == ["gpu-b"]


def test_without_hosts_the_binary_gets_all_addresses() -> None:
    made = plan({"models": "scripted:a", "ollama_url": "http://c:1,http://d:1"}, hosts_from(""))
    assert made["urls"] == {"local": ["http://c:1", "http://d:1"]}


def test_values_are_passed_explicitly_unless_a_task_may_propose_them() -> None:
    words = plan({"models": "scripted:a"})["words"]
    for word in ("--n-tips=5", "--temperature=0.7", "--prompts=v1,v2-mentor,v3-few-shot", "--diversity=false"):
        assert word in words
    own = plan({"models": "scripted:a", "task": "/tasks/mail", "n_tips": 7})["words"]
    assert "--n-tips=7" in own
    assert not [it for it in own if it.startswith(("--temperature", "--prompts"))]
    assert "--assume-size=m=8" in plan({"models": "scripted:a", "assume_size": "m=8,n=9"})["words"]


def test_an_automatic_judge_needs_a_model() -> None:
    with pytest.raises(InvalidConf, match="name the judging model with judge"):
        plan({"models": "scripted:a", "judge_mode": "auto"})


class ApiStandIn(BaseHTTPRequestHandler):
    """A stand-in for the two requests that the check of the pools makes to Airflow's API."""

    def answer(self, body) -> None:
        self.send_response(200)
        self.end_headers()
        self.wfile.write(json.dumps(body).encode())

    def do_POST(self) -> None:
        self.answer({"access_token": "t"})

    def do_GET(self) -> None:
        self.answer({"pools": [{"name": "assize-gpu-a"}], "total_entries": 1})

    def log_message(self, *_) -> None:
        pass


def test_a_missing_pool_is_named_with_its_command(monkeypatch) -> None:
    server = HTTPServer(("127.0.0.1", 0), ApiStandIn)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    monkeypatch.setenv("AIRFLOW_CONN_ASSIZE_AIRFLOW_API", f"http://u:p@127.0.0.1:{server.server_port}")
    planning.check_pools(["assize-gpu-a"])
    with pytest.raises(InvalidConf) as problem:
        planning.check_pools(["assize-gpu-a", "assize-gpu-b"])
    assert "'assize-gpu-b' does not exist" in str(problem.value)
    assert "airflow pools set assize-gpu-b 1" in str(problem.value)
    server.shutdown()

"""One whole sitting by the real Claude Code, with a stand-in for the model behind it.

Usage: claude_code.py ASSIZE CLAUDE FOLDER. The folder holds an experiment `e` with everything
pending, and what `assize agent install` writes. Claude Code itself is real: it reads the slash
command, starts `assize mcp`, and makes the tool calls. Only the model's API is played here, by
a small server on this machine that answers as a judge would; no model is asked and nothing
leaves the machine. The last line printed is OK.
"""

import json
import os
import pathlib
import subprocess
import sys
import tempfile
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

ASSIZE, CLAUDE, FOLDER = sys.argv[1:4]
TOOL = "mcp__assize__"
CALLS = []


def last_results(messages):
    """The tool calls so far with their results, oldest first."""
    names, results = {}, []
    for message in messages:
        content = message["content"]
        for block in content if isinstance(content, list) else []:
            if block["type"] == "tool_use":
                names[block["id"]] = block["name"]
            elif block["type"] == "tool_result":
                inner = block.get("content")
                if isinstance(inner, list):
                    inner = "".join(part.get("text", "") for part in inner)
                results.append((names.get(block["tool_use_id"], ""), inner, block.get("is_error", False)))
    return results


def decide(request):
    """What a judge would do next: a tool call, or the closing words."""
    results = last_results(request["messages"])
    if not results:
        words = json.dumps(request["messages"])
        if "sitting as a judge in Assize" not in words:
            return "Hello."
        return TOOL + "pending", {}
    name, text, is_error = results[-1]
    assert not is_error, (name, text)
    if name == TOOL + "pending":
        return TOOL + "next_cases", {"experiment": "e", "limit": 10}
    if name == TOOL + "next_cases":
        cases = json.loads(text)["cases"]
        if not cases:
            return TOOL + "finish_sitting", {}
        verdicts = [{"case": it["case"], "scores": {"worth": 2}, "rationale": "Short and clear."} for it in cases]
        return TOOL + "submit_verdicts", {"verdicts": verdicts}
    if name == TOOL + "submit_verdicts":
        return TOOL + "next_cases", {"experiment": "e", "limit": 10}
    return "All pending cases are judged."


def events(decision, model):
    """The decision as the API streams it."""
    usage = {"input_tokens": 1, "output_tokens": 1}
    message = {"id": f"msg_{len(CALLS)}", "type": "message", "role": "assistant", "model": model,
               "content": [], "stop_reason": None, "stop_sequence": None, "usage": usage}
    yield "message_start", {"message": message}
    if isinstance(decision, str):
        block, delta, stop = {"type": "text", "text": ""}, {"type": "text_delta", "text": decision}, "end_turn"
    else:
        name, arguments = decision
        block = {"type": "tool_use", "id": f"toolu_{len(CALLS)}", "name": name, "input": {}}
        delta = {"type": "input_json_delta", "partial_json": json.dumps(arguments)}
        stop = "tool_use"
    yield "content_block_start", {"index": 0, "content_block": block}
    yield "content_block_delta", {"index": 0, "delta": delta}
    yield "content_block_stop", {"index": 0}
    yield "message_delta", {"delta": {"stop_reason": stop, "stop_sequence": None}, "usage": usage}
    yield "message_stop", {}


class StandIn(BaseHTTPRequestHandler):
    """The model's side of the API, as far as Claude Code asks for it."""

    protocol_version = "HTTP/1.1"

    def log_message(self, *_):
        pass

    def reply(self, body, kind="application/json", status=200):
        self.send_response(status)
        self.send_header("content-type", kind)
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def do_HEAD(self):
        self.reply(b"")

    def do_GET(self):
        self.reply(b"{}", status=404)

    def do_POST(self):
        request = json.loads(self.rfile.read(int(self.headers["content-length"])) or b"{}")
        if "count_tokens" in self.path:
            return self.reply(json.dumps({"input_tokens": 1}).encode())
        if not self.path.startswith("/v1/messages"):
            return self.reply(b"{}", status=404)
        decision = decide(request)
        CALLS.append(decision if isinstance(decision, str) else decision[0])
        streamed = list(events(decision, request["model"]))
        if request.get("stream"):
            lines = [f"event: {name}\ndata: {json.dumps({'type': name, **data})}\n\n" for name, data in streamed]
            return self.reply("".join(lines).encode(), "text/event-stream")
        message = dict(streamed[0][1]["message"])
        if isinstance(decision, str):
            message["content"], message["stop_reason"] = [{"type": "text", "text": decision}], "end_turn"
        else:
            block = {"type": "tool_use", "id": "toolu", "name": decision[0], "input": decision[1]}
            message["content"], message["stop_reason"] = [block], "tool_use"
        self.reply(json.dumps(message).encode())


def main():
    server = ThreadingHTTPServer(("127.0.0.1", 0), StandIn)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    with tempfile.TemporaryDirectory() as home:
        programs = pathlib.Path(home, "bin")
        programs.mkdir()
        programs.joinpath("assize").symlink_to(ASSIZE)
        tools = [TOOL + it for it in ("pending", "next_cases", "submit_verdicts", "progress", "finish_sitting")]
        done = subprocess.run(
            [CLAUDE, "-p", "/judge e", "--output-format", "json", "--mcp-config", ".mcp.json",
             "--strict-mcp-config", "--allowedTools", ",".join(tools)],
            cwd=FOLDER, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=300,
            env={"PATH": f"{programs}:{os.environ['PATH']}", "HOME": home, "USER": "tester",
                 "ANTHROPIC_BASE_URL": f"http://127.0.0.1:{server.server_port}",
                 "ANTHROPIC_API_KEY": "a-stand-in-needs-no-key", "DISABLE_AUTOUPDATER": "1",
                 "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1"},
        )
    print("calls:", CALLS)
    print(done.stdout[-2000:], done.stderr[-2000:])
    assert done.returncode == 0, done.returncode
    result = json.loads(done.stdout)
    assert not result["is_error"] and not result["permission_denials"], result
    assert result["result"] == "All pending cases are judged.", result
    assert CALLS.count(TOOL + "submit_verdicts") >= 1 and TOOL + "finish_sitting" in CALLS
    print("OK")


main()

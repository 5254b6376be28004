"""Answers the packets of a prompt loop with the real MCP client library, over stdio.

Usage: agent_session.py ASSIZE FOLDER. The folder holds the experiment `e` with pending runs and a loop with
the reflector `agent`, whose first packet waits. Every expectation is an assertion; the last line printed is
OK, and the loop waits for judges.
"""

import asyncio
import json
import os
import re
import subprocess
import sys

import mcp

ASSIZE, FOLDER = sys.argv[1], sys.argv[2]
ENV = {"PATH": os.environ["PATH"], "HOME": FOLDER, "USER": "tester"}


class Session:
    """One agent session: a process of the server and the client that talks to it."""

    def __init__(self, *flags):
        self.parameters = mcp.StdioServerParameters(
            command=ASSIZE, args=["mcp", *flags], cwd=FOLDER, env=ENV
        )

    async def __aenter__(self):
        self.client = mcp.Client(self.parameters)
        await self.client.__aenter__()
        return self

    async def __aexit__(self, *error):
        await self.client.__aexit__(*error)

    async def call(self, tool, **arguments):
        result = await self.client.call_tool(tool, arguments)
        assert not result.is_error, (tool, result.content)
        return result.structured_content

    async def refused(self, tool, **arguments):
        result = await self.client.call_tool(tool, arguments)
        assert result.is_error, (tool, result.structured_content)
        return result.content[0].text


def assize(*words):
    done = subprocess.run([ASSIZE, *words], cwd=FOLDER, env=ENV, capture_output=True, text=True)
    assert done.returncode == 0, done
    return done.stdout


def step():
    return json.loads(assize("optimise", "step", "--experiment", "e", "--json"))


def status():
    return json.loads(assize("optimise", "status", "--experiment", "e", "--json"))


async def a_judge_who_sits_sees_no_packet():
    """Neither in the session that sits nor in another one of the same judge."""
    async with Session("--judged-by", "tester") as judge:
        taken = await judge.call("next_cases", experiment="e", limit=1)
        assert taken["cases"], taken
        for tool, more in (("next_packet", {}), ("submit_children", {"packet": "p1", "children": [{}]})):
            said = await judge.refused(tool, experiment="e", **more)
            assert "blind" in said and "finish_sitting" in said, said
        async with Session("--judged-by", "tester") as second:
            said = await second.refused("next_packet", experiment="e")
            assert "blind" in said, said
        async with Session("--judged-by", "somebody else") as other:
            assert (await other.call("next_packet", experiment="e"))["experiment"] == "e"
        await judge.call("finish_sitting")


async def mistakes_record_nothing(agent, packet):
    before = status()
    said = await agent.refused("next_packet", experiment="nowhere")
    assert "packets wait in e" in said, said
    ask = {"experiment": "e", "packet": packet["packet"]}
    for children, part in (
        ([], "children is empty"),
        ([{"hypothesis": "one\ntwo", "template": "x"}], "children[0].hypothesis has more than one line"),
        ([{"hypothesis": "h", "template": "x"}] * 5, "at most 2"),
        ([{"hypothesis": "h", "template": "x", "score": 5}], "score"),
    ):
        said = await agent.refused("submit_children", **ask, children=children)
        assert part in said and "nothing was recorded" in said, said
    said = await agent.refused("submit_children", experiment="e", packet="p9", children=[{"a": 1}])
    assert "no packet 'p9'" in said, said
    assert status() == before


def write_children(packet):
    """What a good reflector does: read the prompt and the reasons, and add what is missing."""
    text = packet["text"]
    nonce = re.search(r"between lines with (\w+) ", text).group(1)
    for line in re.findall(r"^<<<.*$|^.*>>>$", text, re.M):
        assert nonce in line, line
    for secret in ("matter s", "matter c"):
        assert secret not in text, "only the feedback split is shown"
    prompt = re.search(rf"<<<prompt {nonce}\n(.*?)\nprompt {nonce}>>>", text, re.S).group(1)
    reasons = re.findall(rf"<<<reason {nonce}\n(.*?)\nreason {nonce}>>>", text, re.S)
    wanted = sorted(set(re.findall(r"It should ([a-z ]+)\.", " ".join(reasons))))
    assert wanted, text
    fix = f"{prompt} Please {wanted[0]}."
    return [
        {"hypothesis": f"Judges ask to {wanted[0]}.", "kind": "edit", "template": fix},
        {"hypothesis": "Other words.", "kind": "restart", "template": f"{prompt} Think twice."},
    ]


async def main():
    await a_judge_who_sits_sees_no_packet()
    async with Session("--judge-kind", "claude-code") as agent:
        guide = await agent.client.get_prompt("reflect", {"request": "e, all rounds"})
        assert "e, all rounds" in guide.messages[0].content.text
        packet = await agent.call("next_packet")
        assert (packet["experiment"], packet["packet"], packet["round"]) == ("e", "p1", 1), packet
        assert (packet["parent"], packet["children"]) == ("seed", 2), packet
        await mistakes_record_nothing(agent, packet)

        fixed = set()
        while True:
            children = write_children(packet)
            answer = {"experiment": "e", "packet": packet["packet"], "children": children}
            taken = await agent.call("submit_children", **answer)
            assert (taken["children"], taken["unchanged"]) == (2, False), taken
            assert (await agent.call("submit_children", **answer))["unchanged"], "the same answer again"
            other = {**answer, "children": children[:1]}
            said = await agent.refused("submit_children", **other)
            assert "answered already" in said, said
            said = await agent.refused("next_packet")
            assert "no packet waits" in said, said
            fixed.add(children[0]["hypothesis"])
            assert taken["next"] == "assize optimise step --experiment e", taken
            found = step()
            if found["waiting_for"] != "reflector":
                break
            packet = await agent.call("next_packet", experiment="e")
    assert len(fixed) == 2, fixed
    assert found["waiting_for"] == "judge", found
    assert found["nominee"] == "r2c1", found
    lineage = assize("optimise", "show", "--experiment", "e", "--json")
    assert "agent claude-code" in lineage, lineage
    print("OK")


asyncio.run(main())

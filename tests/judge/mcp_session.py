"""Drives `assize mcp` with the real MCP client library, over stdio.

Usage: mcp_session.py ASSIZE FOLDER. The folder holds an experiment `e` with everything pending.
Every expectation is an assertion; the last line printed is OK.
"""

import asyncio
import json
import os
import subprocess
import sys

import mcp

ASSIZE, FOLDER = sys.argv[1], sys.argv[2]
ENV = {"PATH": os.environ["PATH"], "HOME": FOLDER, "USER": "tester"}
TOOLS = {
    "pending",
    "next_cases",
    "submit_verdicts",
    "progress",
    "finish_sitting",
    "leaderboard",
    "next_packet",
    "submit_children",
}


class Judge:
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


def verdict(case, score=2, **scores):
    given = {"worth": score, **scores}
    return {"case": case["case"], "scores": given, "rationale": "Because of its words."}


def assize(*words):
    done = subprocess.run([ASSIZE, *words], cwd=FOLDER, env=ENV, capture_output=True, text=True)
    assert done.returncode == 0, done
    return done.stdout


async def mistakes_lose_nothing(judge):
    """A bad score, an unknown case, a missing criterion: named, and nothing of the call is written."""
    said = await judge.refused("submit_verdicts", verdicts=[])
    assert "next_cases" in said, said
    taken = await judge.call("next_cases", experiment="e", limit=2)
    assert len(taken["cases"]) == 2 and taken["rubric"]["id"] == "small-v1", taken
    assert "+++" in taken["rubric"]["text"], "the rubric comes with the first cases"
    blind = json.dumps(taken)
    for secret in ("scripted:", "Tell me of", "run_id"):
        assert secret not in blind, secret
    first, second = taken["cases"]
    unknown = {"case": "0" * 20}
    said = await judge.refused(
        "submit_verdicts",
        verdicts=[verdict(first), verdict(second, 7), verdict(unknown), verdict(first, charm=1)],
    )
    for part in (second["case"], "scores.worth is 7, but worth runs from 1 to 3", "0" * 20, "nothing"):
        assert part in said, said
    said = await judge.refused("submit_verdicts", verdicts=[{"case": first["case"], "scores": {}}])
    assert "scores.worth is missing" in said, said
    assert (await judge.call("progress"))["done"] == 0
    again = await judge.call("next_cases", experiment="e", limit=2)
    assert [it["case"] for it in again["cases"]] == [first["case"], second["case"]]
    assert again["rubric"]["text"] == "", "once is enough"
    accepted = await judge.call("submit_verdicts", verdicts=[verdict(first), verdict(second, 3)])
    assert (accepted["scored"], accepted["revised"]) == (2, 0), accepted
    revised = await judge.call("submit_verdicts", verdicts=[verdict(first, 1)])
    assert (revised["scored"], revised["revised"]) == (0, 1), revised
    said = await judge.refused("leaderboard", experiment="e")
    assert "blind" in said, said
    said = await judge.refused("next_cases", experiment="another")
    assert "finish_sitting" in said, said
    return taken["sitting"], {first["case"], second["case"]}


async def clear(judge, seen, limit=50):
    """Judges everything that this judge can get."""
    while True:
        taken = await judge.call("next_cases", experiment="e", limit=limit)
        if not taken["cases"]:
            return
        fresh = {it["case"] for it in taken["cases"]}
        assert not fresh & seen, "no case comes twice"
        seen |= fresh
        await judge.call("submit_verdicts", verdicts=[verdict(it) for it in taken["cases"]])


async def main():
    async with Judge("--judged-by", "first") as judge:
        listed = await judge.client.list_tools()
        assert {it.name for it in listed.tools} == TOOLS, listed
        prompts = await judge.client.list_prompts()
        assert {it.name for it in prompts.prompts} == {"judge", "reflect"}, prompts
        prompt = await judge.client.get_prompt("judge", {"request": "e, ten cases"})
        assert "e, ten cases" in prompt.messages[0].content.text
        assert judge.client.server_info.name == "assize", judge.client.server_info
        waiting = await judge.call("pending")
        assert [it["name"] for it in waiting["experiments"]] == ["e"], waiting
        sitting, seen = await mistakes_lose_nothing(judge)

        # A second judge at once gets other cases, and nobody loses any.
        async with Judge("--judged-by", "second") as second:
            taken = await second.call("next_cases", experiment="e", limit=1)
            assert taken["sitting"] != sitting
            mine = await judge.call("next_cases", experiment="e", limit=2)
            theirs = {it["candidate"] + json.dumps(it["context"]) for it in taken["cases"]}
            assert taken["cases"] and theirs.isdisjoint(
                it["candidate"] + json.dumps(it["context"]) for it in mine["cases"]
            )
            said = await second.refused("submit_verdicts", verdicts=[verdict(mine["cases"][0])])
            assert "is not a case that this sitting holds" in said, said
            await second.call("submit_verdicts", verdicts=[verdict(it) for it in taken["cases"]])
            await second.call("finish_sitting")

    # The client is gone, the sitting is open: the same judge goes on with it.
    async with Judge("--judged-by", "first") as judge:
        taken = await judge.call("next_cases", experiment="e", limit=1)
        assert taken["resumed"] and taken["sitting"] == sitting, taken
        assert taken["progress"]["done"] == 2, taken["progress"]
        assert taken["cases"][0]["case"] not in seen

    # A session whose lease has run out, and a judge who takes over.
    async with Judge("--judged-by", "slow", "--lease", "1") as slow:
        taken = await slow.call("next_cases", experiment="e", limit=2)
        held = taken["cases"]
        assert len(held) == 2, taken
        assert (await slow.call("submit_verdicts", verdicts=[verdict(held[0])]))["scored"] == 1
        await asyncio.sleep(1.5)
        async with Judge("--judged-by", "quick") as quick:
            await clear(quick, set())
            await quick.call("finish_sitting")
        said = await slow.refused("submit_verdicts", verdicts=[verdict(held[1])])
        assert "stale" in said and held[1]["case"] in said, said

    async with Judge("--judged-by", "first") as judge:
        await clear(judge, set())
        finished = await judge.call("finish_sitting")
        assert finished["sitting"] == sitting and finished["state"], finished
        board = await judge.call("leaderboard", experiment="e")
        assert board["leaderboard"]["coverage"]["pending"] == 0, board["leaderboard"]["coverage"]
        assert (await judge.refused("progress")), "the sitting is over"
    status = json.loads(assize("judge", "status", "--experiment", "e", "--json"))
    assert status["expert"]["pending"] == 0, status
    print("OK")


asyncio.run(main())

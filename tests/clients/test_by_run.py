"""Clients behind `proxy run`: what the proxy of each command told is heard, though it ends with the command."""

from __future__ import annotations

import asyncio
import os
import sys
from pathlib import Path

import pytest

from evals.clients.middle import between, by_run, telling
from evals.clients.script import Plan
from evals.clients.upstream import Provider, provided

pytestmark = pytest.mark.anyio

CLIENT = """#!{python}
import json, os, sys, urllib.request
tools = [{{"name": "Bash", "input_schema": {{"type": "object"}}}}]
asked = {{"model": "m", "max_tokens": 9, "tools": tools, "messages": [{{"role": "user", "content": sys.argv[1]}}]}}
request = urllib.request.Request(os.environ["ANTHROPIC_BASE_URL"] + "/v1/messages", json.dumps(asked).encode())
urllib.request.build_opener(urllib.request.ProxyHandler({{}})).open(request).read()
sys.exit(7)
"""


async def test_what_the_proxies_of_two_commands_told_is_heard_behind_their_ends(tmp_path: Path):
    program, provider = tmp_path / "client", Provider(Plan(10))
    program.write_text(CLIENT.format(python=sys.executable))
    program.chmod(0o700)
    async with provided(provider) as upstream, between("run", upstream, 40_000, tmp_path) as stands:
        command = [*by_run(upstream, 40_000, tmp_path), str(telling(program, tmp_path))]
        for words in ("Read the files.", "Write a file."):
            process = await asyncio.create_subprocess_exec(*command, words, env={**os.environ, "HOME": str(tmp_path)})
            assert await asyncio.wait_for(process.wait(), 120) == 7
        await stands.look()
    assert [seen.problem for seen in provider.seen] == ["", ""]
    assert [record["status"] for record in stands.records] == [200, 200]
    assert stands.told["failures"] == 0

"""Drive real clients with our plug-ins, and one after a handed-over session, on the loopback.

    python -m evals.clients.plugins --client claude,opencode,pi --steps 24 --programs FOLDER

Each plays a session, compacts where it does so by a word, goes on, and goes on once more without the proxy. Then a
stored session is continued in it. A client that is not in FOLDER (of `npm install`) is left out. The exit status is 1
where a request was refused or did not hold what it has to.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from evals.clients.__main__ import FIRST, LEG, ended, proxied, started
from evals.clients.programs import FOLDER, PROGRAMS, Program
from evals.clients.script import Plan, write_sources
from evals.clients.upstream import Provider, provided
from summarizing_context import Settings, open_context
from summarizing_context.testing import Conversation

SUMMARIES = "<summary messages="
PROMPT = "[summarizing-context: the first "
NAMES = {"claude": "claude-code"}
WORDS = {"claude": ["-p"], "codex": ["exec", "--skip-git-repo-check"], "opencode": ["run"]}


class Pi(Program):
    """Pi, with a provider that speaks Chat Completions and a window of 40,000 tokens."""

    def environment(self) -> dict[str, str]:
        home = self.folder / "home" / ".pi" / "agent"
        home.mkdir(parents=True, exist_ok=True)
        model = {"id": "m1", "name": "m1", "input": ["text"], "contextWindow": 40_000, "maxTokens": 4_000}
        model["cost"] = dict.fromkeys(("input", "output", "cacheRead", "cacheWrite"), 0)
        provider = {"baseUrl": f"{self.address}/v1", "api": "openai-completions", "apiKey": "none", "models": [model]}
        (home / "models.json").write_text(json.dumps({"providers": {"loop": provider}}))
        compaction = {"enabled": True, "reserveTokens": 8_000, "keepRecentTokens": 4_000}
        (home / "settings.json").write_text(json.dumps({"compaction": compaction}))
        return {**super().environment(), "PI_OFFLINE": "1"}

    def command(self, text: str) -> list[str]:
        place = ["-c"] if self.session else []
        self.session = "latest"
        return [str(self.program), "--provider", "loop", "--model", "m1", *place, "-p", text]

    def heard(self, output: str) -> str:
        return output


async def run(words: Sequence[str], work: Path, env: Mapping[str, str]) -> str:
    """Run a command to its end, and return what it wrote. Raise `RuntimeError` where it failed."""
    process = await started(words, work, env)
    try:
        out, errors = await asyncio.wait_for(process.communicate(), LEG)
    finally:
        await ended(process)
    if process.returncode:
        raise RuntimeError(f"{words[:3]}: status {process.returncode}: {errors.decode()[-600:]}")
    return out.decode("utf-8", "replace")


async def play(name: str, program: Path, folder: Path, steps: int, budget: int) -> dict[str, Any]:
    """Return what a client's session and the one that was handed over to it have come to."""
    provider, told, work = Provider(Plan(steps)), dict[str, Any](client=name), write_sources(folder / "work")
    ours = (sys.executable, "-m", "summarizing_context")
    async with provided(provider) as upstream:
        client = {**PROGRAMS, "pi": Pi}[name](program, folder, upstream)
        env = client.environment()
        env |= {"PATH": f"{program.parent}:{env['PATH']}", "PYTHONPATH": os.getcwd(), "NO_COLOR": "1"}
        store = folder / "proxy.db"
        async with proxied(upstream, budget, store, env) as proxy:
            if name != "codex":
                port = proxy.rpartition(":")[2]
                await run([*ours, "install", NAMES.get(name, name), "--yes", "--listen", port], work, env)
                for text in (FIRST, client.compaction, "And now?"):
                    if text:
                        client.heard(await run(client.command(text), work, env))
                with_plugin = [seen for seen in provider.seen if seen.kind == "agent"]
                told["largest"] = max(seen.tokens for seen in with_plugin)
                told["last"] = with_plugin[-1].tokens
                told["holds"] = SUMMARIES in " ".join(with_plugin[-1].items).replace("\\", "")

            # a session of another client goes on in this one, and its log with it
            async with open_context(Settings(store=store, session_id="s1", max_tokens=8_000)) as context:
                talk = Conversation()
                for message in [talk.user("Fix the parser. Never push to main."), *talk.turns(60)]:
                    await context.add_message(message)
                await context.get_messages_for_request()
            if name in WORDS:
                given = ("continue", "s1", "--store", str(store), "--in", NAMES.get(name, name), "--", *WORDS[name])
                await run([*ours, *given], work, env)
                told["continued"] = PROMPT in " ".join(provider.seen[-1].items) or name == "opencode"
        if name != "codex":
            before = len(provider.seen)
            await run(client.command("Once more."), work, env)  # without the proxy
            told["goes_on_alone"] = len(provider.seen) > before
    told["requests"] = len(provider.seen)
    told["refused"] = [seen.problem for seen in provider.seen if seen.problem]
    return told


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m evals.clients.plugins", description=__doc__.splitlines()[0])
    parser.add_argument("--client", default="claude,codex,opencode,pi", help="clients, with commas between them")
    parser.add_argument("--steps", type=int, default=24, help="of the session")
    parser.add_argument("--budget", type=int, default=22_000, help="tokens of a request")
    parser.add_argument("--programs", type=Path, default=FOLDER, help="the folder in which npm installed the clients")
    options = parser.parse_args()
    good = True
    for name in options.client.split(","):
        program = (options.programs / "node_modules" / ".bin" / name).absolute()
        if not program.exists():
            print(f"{name}: not in {options.programs}; left out", file=sys.stderr)
            continue
        with tempfile.TemporaryDirectory(prefix=f"{name}-") as folder:
            told = asyncio.run(play(name, program, Path(folder), options.steps, options.budget))
        print(json.dumps(told))
        good &= not told["refused"] and all(told.get(one, True) for one in ("holds", "continued", "goes_on_alone"))
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())

"""The provider on the loopback for commands, and a program that replays transcripts against it.

`python -m tests.providers.serve --replay FOLDER` replays the transcripts of a folder through both SDKs, and ends as the
worst of them did. Its model is honest: the extractive summary of what it was given.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Literal

import anthropic
import openai
from anyio.from_thread import start_blocking_portal

from summarizing_context.cli import main as run_command
from summarizing_context.messages.tokens import estimate_text
from summarizing_context.summarizers.extractive.summarizer import summarize_extractively

from .protocols import KEY, MODEL, PROTOCOLS, Json, Protocol, spoken_at, system_text, user_text
from .server import Answer, ProviderServer, Request, Script, serving, weather

SDKS = (anthropic, openai)  # imported before the clock of a call runs
_CAP = 400  # tokens of a summary
_CALL_TIMEOUT = "3"  # seconds; a stalled call is given up after that; the first one imports its SDK


def honest(body: Json) -> str:
    """A summary of the fenced content of a request."""
    content = user_text(body).rpartition("<session_record>\n")[2].removesuffix("\n</session_record>")
    kind: Literal["segment", "rollup"] = "rollup" if content.startswith("### summary 1 of ") else "segment"
    return summarize_extractively(content, kind=kind, max_tokens=_CAP)


def answering(request: Request) -> Answer:
    """An honest summary, and no rules."""
    is_rules = system_text(request.body).startswith("You read what the human")
    text = "none" if is_rules else honest(request.body)
    return Answer(body=json.dumps(spoken_at(request.path).reply(text)).encode())


def honestly(script: Script) -> Script:
    """The same weather, with replies by `honest`."""

    def reply(request: Request) -> Answer:
        said = script(request)
        if said.status != 200 or said.body is not None or said.ending != "whole":
            return said
        return Answer(latency=said.latency, body=json.dumps(counted(request)).encode())

    return reply


def counted(request: Request) -> Json:
    """The whole reply in the protocol of the request, its usage by the built-in estimate."""
    text = honest(request.body)
    read = estimate_text(system_text(request.body)) + estimate_text(user_text(request.body))
    written = estimate_text(text)
    spoken = spoken_at(request.path)
    return spoken.reply(text, usage=spoken.usage(read, written))


@contextmanager
def serving_apart(script: Script) -> Iterator[ProviderServer]:
    """A server in a thread of its own, for commands that have an event loop of theirs."""
    with start_blocking_portal() as portal, portal.wrap_async_context_manager(serving(script)) as server:
        yield server


def replay_arguments(protocol: Protocol, server: ProviderServer, paths: Sequence[str], budget: str) -> list[str]:
    """The command line of a replay against the server."""
    place = ["--summarizer", protocol.name, "--model", MODEL, "--base-url", protocol.base_url(server.root)]
    return ["replay", *paths, "--budget", budget, *place]


def told(server: ProviderServer) -> str:
    """How the server has answered, and how often."""
    kinds = Counter(said.ending if said.ending != "whole" else str(said.status) for said in server.answers)
    return ", ".join(f"{count:,} times {kind}" for kind, count in kinds.most_common())


def _replay(options: argparse.Namespace, script: Script) -> int:
    os.environ.update({protocol.keys[0]: KEY for protocol in PROTOCOLS})
    os.environ.setdefault("SUMMARIZING_CONTEXT_CALL_TIMEOUT", _CALL_TIMEOUT)
    worst = 0
    for protocol in PROTOCOLS:
        with serving_apart(script) as server:
            print(f"\n{protocol.name}", flush=True)
            worst = max(worst, run_command(replay_arguments(protocol, server, [options.replay], options.budget)))
            print(f"The provider answered {told(server)}.", flush=True)
    return worst


def main() -> int:
    """Read the command line, and replay."""
    parser = argparse.ArgumentParser(description="A provider on the loopback, for replays.")
    parser.add_argument("--latency", type=float, default=0.05, help="seconds before a reply, on average")
    parser.add_argument("--rate-limited", type=float, default=0.05, help="share of requests answered with 429")
    parser.add_argument("--stalled", type=float, default=0.02, help="share of requests never answered")
    parser.add_argument("--failing", type=float, default=0.0, help="share of requests answered with 500")
    parser.add_argument("--pause", type=float, default=0.05, help="seconds of Retry-After")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--replay", metavar="FOLDER", required=True, help="replay these transcripts through both SDKs")
    parser.add_argument("--budget", default="16k", help="of the replay")
    given = parser.parse_args()
    faults = {"rate_limited": given.rate_limited, "stalled": given.stalled, "failing": given.failing}
    faults = {name: share for name, share in faults.items() if share}
    script = honestly(weather(given.seed, latency=given.latency, faults=faults, pause=str(given.pause)))
    return _replay(given, script)


if __name__ == "__main__":
    sys.exit(main())

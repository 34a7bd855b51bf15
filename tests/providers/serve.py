"""The provider on the loopback as a program of its own, to replay transcripts against it.

`python -m tests.providers.serve` prints the addresses for `--base-url` and serves until it is stopped, or until its
standard input ends. Its model is honest: the extractive summary of what it was given.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import sys

from summarizing_context.core.estimate import estimate_text
from summarizing_context.summarizers.extractive import summarize_extractively

from .protocols import OPENAI, Json, answer, completion, system_text, user_text
from .server import Answer, Request, Script, serving, weather

_CAP = 400  # tokens of a summary


def honest(body: Json) -> str:
    """A summary of the fenced content of a request."""
    content = user_text(body).removeprefix("<session_record>\n").removesuffix("\n</session_record>")
    kind = "rollup" if content.startswith("### summary 1 of ") else "segment"
    return summarize_extractively(content, kind=kind, max_tokens=_CAP, count=estimate_text)


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
    if request.path == OPENAI.path:
        return completion(text, usage={"prompt_tokens": read, "completion_tokens": written})
    return answer(text, usage={"input_tokens": read, "output_tokens": written})


async def serve(options: argparse.Namespace) -> None:
    """Serve until standard input ends; then say what was asked."""
    faults = {"rate_limited": options.rate_limited, "stalled": options.stalled, "failing": options.failing}
    faults = {name: share for name, share in faults.items() if share}
    script = honestly(weather(options.seed, latency=options.latency, faults=faults, pause=str(options.pause)))
    async with serving(script) as server:
        print(f"openai {OPENAI.base_url(server.root)}\nanthropic {server.root}", flush=True)
        await asyncio.to_thread(sys.stdin.read)
        statuses = [said.ending if said.ending != "whole" else said.status for said in server.answers]
        print({status: statuses.count(status) for status in dict.fromkeys(statuses)}, file=sys.stderr)


def main() -> None:
    """Read the command line and serve."""
    parser = argparse.ArgumentParser(description="A provider on the loopback, for replays.")
    parser.add_argument("--latency", type=float, default=0.05, help="seconds before a reply, on average")
    parser.add_argument("--rate-limited", type=float, default=0.05, help="share of requests answered with 429")
    parser.add_argument("--stalled", type=float, default=0.02, help="share of requests never answered")
    parser.add_argument("--failing", type=float, default=0.0, help="share of requests answered with 500")
    parser.add_argument("--pause", type=float, default=0.05, help="seconds of Retry-After")
    parser.add_argument("--seed", type=int, default=0)
    asyncio.run(serve(parser.parse_args()))


if __name__ == "__main__":
    main()

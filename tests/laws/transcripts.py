"""Play transcripts through a context and judge every view: by the laws, and by what the providers refuse.

    python -m tests.laws.transcripts FOLDER --budget 8000,16000,64000

A view is taken where a host asks for one: before each message of the assistant behind no open call, and at the end.
With `--every 1` it is behind each message too, also between the calls and results of one reply. What is broken is
printed with its place, and the exit status is 1. Some recordings are lawful for no provider: what one refuses counts as
broken only where it would take the whole log.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from functools import cache, partial
from pathlib import Path
from typing import Any

import anyio

from evals.clients.rules import SHAPES, Seal, problem
from summarizing_context import Settings, message_text_parts, open_context
from summarizing_context.messages.tokens import choose_counter, load_offline
from summarizing_context.transcripts import find_transcripts, read
from tests.clients.players import rule_of
from tests.laws.builders import Message
from tests.laws.checkers import view_tokens
from tests.laws.grouping import read_log
from tests.laws.judge import IMAGE_TOKENS, Judge, LawBroken
from tests.laws.shapes import blocks, canonical_once, leading_system_rows

ROUGHLY = 1.15  # times its budget a view may be by tiktoken, where the context counts by the estimate
SUMS = ("messages", "views", "activations", "covered", "shrunk", "without_room", "refused")


class Recorded(Seal):
    """Signatures as the provider made them: those that stand in a recording hold."""

    def __init__(self, log: Sequence[Message]) -> None:
        self._known = {(block.get("thinking"), block.get("signature")) for row in log for block in blocks(row)}

    def holds(self, text: object, signature: object) -> bool:
        return (text, signature) in self._known


def refusal(rows: Sequence[Message], log: Sequence[Message], seal: Seal) -> str:
    """What the provider that the log was written for says of these rows; empty where it takes them.

    A client sends no blank texts, and no fields that only a recording has; Anthropic takes messages of one role in a
    row as one.
    """
    if any("tool_calls" in row or row["role"] == "tool" for row in log):
        known = {role: {"role", *names} for role, names in SHAPES["rows"].items()}
        plain = [{name: value for name, value in row.items() if name in known[row["role"]]} for row in rows]
        return problem("chat", {"messages": plain}, seal)
    tools = [{"name": name} for name in {b["name"] for row in log for b in blocks(row) if b.get("type") == "tool_use"}]
    sent: list[Message] = []
    for row in rows[leading_system_rows(rows) :]:
        content = row["content"] or []
        said = [{"type": "text", "text": content}] if isinstance(content, str) else content
        said = [block for block in said if block.get("text", "-").strip()]
        if said and sent and sent[-1]["role"] == row["role"]:
            sent[-1]["content"] = [*sent[-1]["content"], *said]
        elif said:
            sent.append({"role": row["role"], "content": said})
    return problem("anthropic", {"max_tokens": 1, "tools": tools, "messages": sent}, seal)


async def play(log: Sequence[Message], budget: int, every: int, counter: Any) -> dict[str, Any]:
    """Add the messages one by one and judge each view; return the figures, and what was broken where."""
    count, encoding = (await choose_counter(counter)).count, _encoding()

    @cache
    def exact(row: str) -> int:
        assert encoding is not None
        rows, tokens = [json.loads(row)], lambda text: len(encoding.encode_ordinary(text))
        return view_tokens(rows, tokens, IMAGE_TOKENS, message_text_parts)

    broken, refused, seal, largest = list[str](), Counter[str](), Recorded(log), 0
    with tempfile.TemporaryDirectory() as folder:
        settings = Settings(max_tokens=budget, store=f"{folder}/s.db", token_counter=counter, idle_after="never")
        async with open_context(settings) as context:
            judge = Judge(context, budget=budget, count=count)
            for at in range(len(log) + 1):
                due = at == len(log) or (log[at]["role"] == "assistant" and not read_log(judge.log).open_groups())
                if at and (due or (every and at % every == 0)):
                    await context.wait_idle()
                    try:
                        view = await judge.view()
                    except LawBroken as error:
                        broken.append(f"before message {at}: {error}")
                        judge.untold()
                        view = []
                    said = refusal(view, log, seal) if view and due else ""
                    if said:
                        refused[rule_of(said)] += 1
                        if not refusal(judge.log, log, seal):
                            broken.append(f"before message {at}: refused: {said}")
                    if encoding is not None and (tokens := sum(exact(canonical_once(row)) for row in view)) > largest:
                        largest = tokens
                        if tokens > budget * (ROUGHLY if counter == "estimate" else 1):
                            broken.append(f"before message {at}: {tokens} tokens by tiktoken")
                if at < len(log):
                    await judge.add(log[at])
            try:
                await judge.check_log()
            except LawBroken as error:
                broken.append(str(error))
    return {
        "budget": budget, "messages": len(log), "views": judge.views, "activations": judge.activations,
        "covered": judge.covered, "shrunk": judge.repairs["shrunk"], "repairs": dict(judge.repairs),
        "without_room": judge.refused, "refused": refused.total(), "rules": dict(refused), "tiktoken": largest,
        "broken": broken,
    }  # fmt: skip


_encoding = cache(load_offline)  # reading its ranks takes a second


def play_file(path: Path, budgets: Sequence[int], every: int, counter: str) -> list[dict[str, Any]]:
    """Play each session of a file at each budget."""
    results = []
    for transcript in read(path):
        log = [dict(message) for message in transcript.messages]
        for budget in budgets:
            started = time.monotonic()
            found = anyio.run(play, log, budget, every, counter)
            name = {"file": path.name, "session": transcript.session_id}
            results.append({**name, **found, "seconds": round(time.monotonic() - started, 1)})
    return results


def main() -> int:
    """Play the transcripts; print what is broken, and the sums of each budget."""
    parser = argparse.ArgumentParser(prog="python -m tests.laws.transcripts", description=__doc__.splitlines()[0])
    parser.add_argument("paths", type=Path, nargs="+", metavar="FOLDER", help="transcripts, or folders of them")
    parser.add_argument("--budget", default="8000,16000,64000", help="tokens of a view, or several, by commas")
    parser.add_argument("--every", type=int, default=0, metavar="N", help="a view behind every Nth message too")
    parser.add_argument("--counter", default="estimate", choices=("estimate", "tiktoken"), help="the context's")
    parser.add_argument("--jobs", type=int, default=1, help="processes")
    parser.add_argument("--json", type=Path, help="write a line for each result there; files that it has are done")
    options = parser.parse_args()
    lines = options.json.read_text("utf-8").splitlines() if options.json and options.json.exists() else []
    results = [json.loads(line) for line in lines]
    done = {result["file"] for result in results}
    paths = [path for path in find_transcripts(options.paths) if path.name not in done]
    work = partial(
        play_file,
        budgets=[int(budget) for budget in options.budget.split(",")],
        every=options.every,
        counter=options.counter,
    )
    with ProcessPoolExecutor(options.jobs) as pool:
        for found in pool.map(work, paths):
            results += found
            for result in found:
                for each in result["broken"]:
                    print(f"{result['file']} at {result['budget']}: {each}", flush=True)
            if options.json:
                with options.json.open("a", encoding="utf-8") as file:
                    file.writelines(json.dumps(result) + "\n" for result in found)
    for budget in sorted({result["budget"] for result in results}):
        at = [result for result in results if result["budget"] == budget]
        sums = {name: sum(result[name] for result in at) for name in SUMS}
        sums |= {"broken": sum(len(result["broken"]) for result in at)}
        print(f"{budget:,} tokens: {len(at)} sessions,", ", ".join(f"{n:,} {name}" for name, n in sums.items()))
        print(f"  the largest view by tiktoken: {max(result['tiktoken'] for result in at):,}")
    return 1 if any(result["broken"] for result in results) else 0


if __name__ == "__main__":
    sys.exit(main())

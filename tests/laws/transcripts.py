"""Play transcripts through a context and judge every view: by the laws, and by what the providers refuse.

    python -m tests.laws.transcripts FOLDER --budget 8000,16000,64000

A view is taken where a host asks for one: before each message of the assistant behind no open call, and at the end.
With `--every 1` it is behind each message too, also between the calls and results of one reply. What is broken is
printed with its place, and the exit status is 1. Some recordings are lawful for no provider: what one refuses counts as
broken only where it would take the whole log.
"""

import argparse
import sys
import tempfile
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import anyio

from evals.clients.rules import SHAPES, Seal, problem
from summarizing_context import Settings, open_context
from summarizing_context.messages.tokens import choose_counter
from summarizing_context.transcripts import find_transcripts, read
from tests.laws.builders import Message
from tests.laws.judge import Judge, LawBroken
from tests.laws.shapes import blocks, leading_system_rows, read_log

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
        known = SHAPES["rows"]
        plain = [{name: row[name] for name in row if name in {"role", *known[row["role"]]}} for row in rows]
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


async def play(
    log: Sequence[Message], budget: int, every: int, summarizer: Any = None, **options: Any
) -> dict[str, Any]:
    """Add the messages one by one and judge each view; return the figures, and what was repaired and broken where."""
    count = (await choose_counter("estimate")).count
    broken, refused, seal = list[str](), 0, Recorded(log)
    with tempfile.TemporaryDirectory() as folder:
        given: dict[str, Any] = {"store": f"{folder}/s.db", "token_counter": "estimate", "idle_after": "never"}
        settings = Settings(max_tokens=budget, **{**given, **options})
        async with open_context(settings, summarizer=summarizer) as context:
            judge = Judge(context, budget=budget, count=count)
            for at in range(1, len(log) + 1):
                await judge.add(log[at - 1])
                due = at == len(log) or (log[at]["role"] == "assistant" and not read_log(judge.log).open_groups())
                if not due and not (every and at % every == 0):
                    continue
                await context.wait_idle()
                view: list[Message] = []
                try:
                    view = await judge.view()
                    if due:
                        await judge.check_log()
                except LawBroken as error:
                    broken.append(f"before message {at}: {error}")
                    judge.untold()
                said = refusal(view, log, seal) if view and due else ""
                refused += bool(said)
                if said and not refusal(judge.log, log, seal):
                    broken.append(f"before message {at}: refused: {said}")
            counted = context.statistics().repairs
    told = {"broken": broken, "repairs": judge.repairs, "counted": counted}
    figures = (len(log), judge.views, judge.activations, judge.covered, judge.repairs["shrunk"], judge.refused, refused)
    return told | dict(zip(SUMS, figures, strict=True))


def main() -> int:
    """Play each session of the transcripts at each budget; print what is broken, and the sums of each budget."""
    parser = argparse.ArgumentParser(prog="python -m tests.laws.transcripts", description=__doc__.splitlines()[0])
    parser.add_argument("paths", type=Path, nargs="+", metavar="FOLDER", help="transcripts, or folders of them")
    parser.add_argument("--budget", default="8000,16000,64000", help="tokens of a view, or several, by commas")
    parser.add_argument("--every", type=int, default=0, metavar="N", help="a view behind every Nth message too")
    options = parser.parse_args()
    is_broken = False
    for budget in map(int, options.budget.split(",")):
        sums = Counter[str]()
        for path in find_transcripts(options.paths):
            for transcript in read(path):
                found = anyio.run(play, [dict(message) for message in transcript.messages], budget, options.every)
                for each in found["broken"]:
                    print(f"{path.name} at {budget}: {each}", flush=True)
                sums.update({name: found[name] for name in SUMS}, broken=len(found["broken"]), sessions=1)
        is_broken = is_broken or sums["broken"] > 0
        print(f"{budget:,} tokens:", ", ".join(f"{number:,} {name}" for name, number in sums.items()))
    return 1 if is_broken else 0


if __name__ == "__main__":
    sys.exit(main())

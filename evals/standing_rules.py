"""How many of the rules that a session holds are rules, and how many of the real ones it holds, by labels of people.

It shares no code with what it judges: a rule is right if its quote and a label's overlap in the same message.

    python -m evals.standing_rules LABELS TRANSCRIPTS                  the session without a model
    ... --exchange FOLDER                                              with a model, by files

LABELS holds one JSON file a log: `log` (a path under TRANSCRIPTS) and `rules` (`message`, `quote`, `ended_by`).
Requests for rules and their replies are files as those of `evals.real.exchange`; call it again until none lacks a
reply. Summaries are a fixed text.
"""

import argparse
import asyncio
import json
import unicodedata
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from evals.real.exchange import FileModel, Writer
from summarizing_context import Settings, StandingRule, SummaryJob, SummaryReply, open_context
from summarizing_context.messages.reading import content_texts
from summarizing_context.transcripts import read_session

_MARKS = str.maketrans("’‘“”„«»", '\'\'"""""')


class RulesByFiles(Writer):
    """A summarizer whose replies to requests for rules are files."""

    async def summarize(self, job: SummaryJob, *, kind: str = "") -> SummaryReply:
        return await super().summarize(job) if job.kind == "rules" else SummaryReply("## Done\n- The work went on.")


def judge(
    messages: Sequence[dict[str, Any]], labels: dict[str, Any], rules: Sequence[StandingRule]
) -> tuple[Counter[str], list[str]]:
    """Count the session's rules beside the labels, and name those that are wrong or missed."""
    texts = [_plain("\n".join(content_texts(message.get("content")))) for message in messages]

    def characters(message: int, quote: str) -> set[tuple[int, int]]:
        """Return the places of the characters of a quote, wherever it stands in a message."""
        words, text = _plain(quote), texts[message]
        starts = [at for at in range(len(text)) if words and text.startswith(words, at)]
        return {(message, place) for at in starts for place in range(at, at + len(words))}

    found: list[dict[str, Any]] = []
    figures, lines = Counter(shown=len(rules), labelled=len(labels["rules"])), list[str]()
    for rule in rules:
        shown = characters(rule.message, rule.quote)
        hits = [label for label in labels["rules"] if characters(label["message"], label["quote"]) & shown]
        found += hits
        figures.update(right=bool(hits), ended_found=any(hit["ended_by"] == rule.ended_by is not None for hit in hits))
        lines += [] if hits else [f'    wrong  [{rule.message}] {rule.source} "{rule.quote}"']
    for label in labels["rules"]:
        figures.update(found=label in found, ended=label["ended_by"] is not None)
        lines += [] if label in found else [f'    missed [{label["message"]}] "{label["quote"]}"']
    return figures, lines


def _plain(text: str) -> str:
    return " ".join(unicodedata.normalize("NFKC", text).translate(_MARKS).split())


def _told(figures: Counter[str]) -> str:
    shares = [("precision", "right", "shown"), ("recall", "found", "labelled"), ("ended", "ended_found", "ended")]
    return ", ".join(f"{name} {figures[part]}/{figures[whole]}" for name, part, whole in shares)


async def main(arguments: argparse.Namespace) -> None:
    """Run each log through a session, and print what the labels say of its rules."""
    total, settings = Counter[str](), Settings(max_tokens=arguments.budget)
    settings = replace(settings, start_at=0.01) if arguments.exchange else settings
    for file in sorted(arguments.labels.glob("*.json")):
        labels = json.loads(file.read_text(encoding="utf-8"))
        messages = read_session(arguments.transcripts / labels["log"]).messages
        model = RulesByFiles(FileModel(arguments.exchange, "recorded replies/1")) if arguments.exchange else None
        async with open_context(settings, summarizer=model) as context:
            await context.set_messages(list(messages))
            if model is not None:
                await context.wait_idle(600)
            figures, lines = judge(messages, labels, context.standing_rules())
        figures["missing"] = model.missing if model else 0
        print(f"{file.stem} {_told(figures)}", *lines, sep="\n")
        total.update(figures)
    print(f"all: {_told(total)}; {total['missing']} requests have no reply")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("labels", type=Path)
    parser.add_argument("transcripts", type=Path)
    parser.add_argument("--exchange", type=Path, help="folder of requests and replies of a model")
    parser.add_argument("--budget", type=int, default=16_000, help="tokens of a view")
    asyncio.run(main(parser.parse_args()))

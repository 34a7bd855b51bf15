"""Builders for the tests of the extractive summarizer: contents as `core.rendering` writes them, and a counter."""

from __future__ import annotations

from summarizing_context.messages.rendering import render_children
from summarizing_context.summarizers.extractive.summarizer import summarize_extractively

Blocks = tuple[str, str]


def count(text: str) -> int:
    """A simple stand-in for a token counter."""
    return len(text) // 4 + 1


def content(*blocks: Blocks) -> str:
    """The blocks (label, body) under their labels."""
    return "\n".join(f"### {label}\n{body}" for label, body in blocks)


def summary(*blocks: Blocks, max_tokens: int = 400) -> str:
    """The extractive summary of these blocks."""
    return summarize_extractively(content(*blocks), max_tokens=max_tokens, count=count)


def rollup(*children: str, max_tokens: int = 400) -> str:
    """The extractive rollup of these summaries."""
    return summarize_extractively(render_children(children), kind="rollup", max_tokens=max_tokens, count=count)


def section(text: str, name: str) -> list[str]:
    """The bullets of one section of a summary text, without their marks; [] if it is not there."""
    for part in ("\n" + text).split("\n## ")[1:]:
        heading, *lines = part.split("\n")
        if heading == name:
            return [line.removeprefix("- ") for line in lines]
    return []


def constraints(text: str) -> list[str]:
    return section(text, "Constraints and corrections")


FIXED_BUILD: tuple[Blocks, ...] = (
    ("user", "Please fix the build of the billing service. Never push to main. Use port 8080 for the server."),
    ("assistant", "I will look at the log first."),
    ("assistant calls run", '{"command":"make test"}'),
    ("failed result of run", "collecting\nsrc/billing/app.py:12: error: Name 'total' is not defined\nexit code 2"),
    ("assistant", "The problem is a missing import in app.py. I decided to import total from src/billing/sums.py."),
    ("assistant calls edit_file", '{"path":"src/billing/app.py","new":"from sums import total"}'),
    ("result of edit_file", "done"),
    ("assistant calls run", '{"command":"make test"}'),
    ("result of run", "collecting\n41 passed in 3.25s"),
    ("user", "Good. Use port 9090 instead."),
    (
        "assistant",
        "All tests pass. The invoice total is 1284.50 EUR. Next I will change the port in config/server.toml.",
    ),
)

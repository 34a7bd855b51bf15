"""The provider on the loopback for commands, which have an event loop of their own."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Literal

import anthropic
import openai
from anyio.from_thread import start_blocking_portal

from summarizing_context.cli import main
from summarizing_context.summarizers.extractive import summarize_extractively
from summarizing_context.summarizers.prompts import Prompt, write_prompt

from .protocols import Json, system_text, user_text
from .server import Answer, ProviderServer, Request, Script, serving

SDKS = (anthropic, openai)  # imported before the clock of a call runs


def honest(body: Json, max_tokens: int = 400) -> str:
    """The extractive summary of the fenced content of a request."""
    content = user_text(body).rpartition("<session_record>\n")[2].removesuffix("\n</session_record>")
    kind: Literal["segment", "rollup"] = "rollup" if content.startswith("### summary 1 of ") else "segment"
    return summarize_extractively(content, kind=kind, max_tokens=max_tokens)


def answering(request: Request) -> Answer:
    """An honest summary, and no rules."""
    is_rules = system_text(request.body).startswith("You read what the human")
    return Answer(model=lambda body: "none" if is_rules else honest(body))


@contextmanager
def serving_apart(script: Script) -> Iterator[ProviderServer]:
    """A server in a thread of its own."""
    with start_blocking_portal() as portal, portal.wrap_async_context_manager(serving(script)) as server:
        yield server


def command(*words: object) -> int:
    """Run a command of ours; its exit status."""
    return main([str(word) for word in words])


def kept_prompt(prompt: Prompt, folder: Path) -> Path:
    """Write a prompt of one's own; its file."""
    (path := folder / prompt.name / f"v{prompt.version}.md").parent.mkdir(parents=True)
    path.write_text(write_prompt(prompt), encoding="utf8")
    return path


def same_reports(one: Path | str, other: Path | str) -> bool:
    """Whether two folders hold the same report, to the byte."""
    return all(
        Path(one, name).read_bytes() == Path(other, name).read_bytes() for name in ("report.html", "report.json")
    )

"""`summarizing-context check`: whether the summarizer answers and the store opens."""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import Any

import anyio
import typer
from rich.text import Text

from summarizing_context.cli.options import TRY, BaseUrl, OwnSettings, command
from summarizing_context.cli.output import Result, Status
from summarizing_context.cli.sessions import find_sessions
from summarizing_context.cli.tables import facts
from summarizing_context.errors import SettingsError, SummarizerError, SummarizingContextError
from summarizing_context.settings.addresses import is_address, shown_store
from summarizing_context.settings.providers import PROVIDERS
from summarizing_context.settings.values import Settings

commands = typer.Typer()


@command(commands, TRY)
def check(own: OwnSettings, base_url: BaseUrl = None) -> Result:
    """Check that the summarizer answers and the store opens, with one call of a few tokens.

    The exit status is 0 if both are well and 1 if not; the table says what is wrong, and where. With the summarizer
    extractive no model is called. Nothing is written to the store.

    Examples:
        check --config agent.toml
        check --summarizer anthropic --model claude-haiku-4-5
        check --model my-model --base-url http://127.0.0.1:8000/v1 --json -
    """
    settings = own.load(base_url=base_url)
    names = ("host", "model", "problem", "status", "seconds", "input_tokens", "output_tokens")
    asked: dict[str, Any] = {"name": settings.summarizer, **dict.fromkeys(names)}
    if settings.summarizer in PROVIDERS:
        asked |= anyio.run(_ask, settings)

    # The store is opened for reading; of a file that is not there yet, look whether it could be made.
    path, about, problem = Path(settings.store), "is made at first use", None
    if str(settings.store) == ":memory:":
        about = "nothing is kept when the process ends"
    elif is_address(settings.store) or path.exists():
        try:
            about = f"opened, {len(find_sessions(settings.store))} sessions"
        except SummarizingContextError as error:
            about, problem = "opened", str(error)
    elif not (path.parent.is_dir() and os.access(path.parent, os.W_OK | os.X_OK)):
        problem = f"its folder {path.parent} is missing, or may not be written"
    opened = {"name": shown_store(settings.store), "about": about, "problem": problem}

    is_well = asked["problem"] is None and problem is None
    called = "no model is called" if asked["host"] is None else f"{asked['model']} at {asked['host']}"
    answered = "ready" if asked["seconds"] is None else f"answered in {asked['seconds']:.1f} s"
    marks = [Text("failed", "bold red") if one["problem"] else Text("ok", "green") for one in (asked, opened)]
    rows = [
        ("summarizer", settings.summarizer, called),
        ("", marks[0], asked["problem"] or answered),
        ("store", marks[1], f"{opened['name']}: {problem or about}"),
    ]
    document = {"ok": is_well, "summarizer": asked, "store": opened}
    return Result(document, [facts("Check", rows)], Status.OK if is_well else Status.LAW_BROKEN)


async def _ask(settings: Settings) -> dict[str, Any]:
    """Ask the model once, and return what came of it."""
    from summarizing_context.summarizers.providers import make_model
    from summarizing_context.summarizers.resilience import call_within, status_code

    told: dict[str, Any] = {"model": settings.model}
    try:
        model = make_model(settings, read_only=False)
    except SettingsError as error:  # such as no key
        return {**told, "problem": str(error)}
    told["host"], began = model.host, time.monotonic()
    try:
        call = model.complete("This checks a connection.", "Answer with the word ok.", 8)
        reply = await call_within(settings.call_timeout, call)
        told |= {"input_tokens": reply.input_tokens, "output_tokens": reply.output_tokens}
        if not reply.text.strip():
            told["problem"] = "the reply is empty; check that the model answers with text"
    except SummarizerError as error:
        status = status_code(error.__cause__)
        told |= {"problem": str(error) if status is None else f"{error} (HTTP {status})", "status": status}
    finally:
        await model.close()
    return {**told, "seconds": round(time.monotonic() - began, 3)}

"""`summarizing-context import`: the sessions of transcripts go into a store."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, NamedTuple

import typer

from summarizing_context.cli.output import (
    ConfigPath,
    InputError,
    JsonPath,
    StorePath,
    TranscriptFormat,
    TranscriptPaths,
    help_text,
    number,
    plain,
    show_result,
    table,
    tell_unreadable,
)
from summarizing_context.cli.own_settings import OwnSettings

if TYPE_CHECKING:
    from summarizing_context.settings.values import Settings
    from summarizing_context.transcripts import Transcript

_LONGEST_NAME = 180  # characters; a session's name has at most 200
_EXAMPLES = """[bold]Examples[/bold]

summarizing-context import ~/.claude/projects --store logs.db

summarizing-context import ~/.codex/sessions --store logs.db
"""


class Imported(NamedTuple):
    """One session of the store after an import."""

    session_id: str
    file: str
    format: str
    messages: int
    added: int


def register(app: typer.Typer) -> None:
    """Add the command to the app."""
    app.command("import", help=help_text(import_transcripts), epilog=_EXAMPLES)(import_transcripts)


def import_transcripts(
    paths: TranscriptPaths,
    store: StorePath,
    *,
    format: TranscriptFormat = "auto",
    config: ConfigPath = None,
    json_path: JsonPath = None,
) -> int:
    """Put the sessions of transcripts into a store.

    Each keeps its own name. A session that the store has already gets the messages that are new, and another session of
    that name a number. A file that cannot be read is named, and the others are imported.
    """
    import anyio

    from summarizing_context.errors import TranscriptError
    from summarizing_context.transcripts import find_transcripts, read

    settings = OwnSettings(config).load(store=store)
    if str(settings.store) == ":memory:":
        raise InputError("--store: an import into memory would be lost; name a file")
    rows: list[Imported] = []
    unreadable: list[TranscriptError] = []
    skipped: Counter[str] = Counter()
    for path in find_transcripts(paths):
        try:
            logs = [log for log in read(path, format=format) if log.messages]
            rows += anyio.run(partial(_import_all, logs, settings))
        except TranscriptError as error:
            unreadable.append(error)
        else:
            skipped.update({kind: count for log in logs for kind, count in log.skipped.items()})
    if unreadable and not rows:
        raise unreadable[0]
    status = tell_unreadable(unreadable)
    problems = [str(problem) for problem in unreadable]
    document = {"sessions": [row._asdict() for row in rows], "unreadable": problems}
    shown = table(f"Imported into {plain(str(store))}", "session", "format", "#messages", "#new", wide="session")
    for row in rows:
        shown.add_row(plain(row.session_id), row.format, number(row.messages), number(row.added))
    show_result(json_path, {**document, "skipped": dict(sorted(skipped.items()))}, shown)
    return status


async def _import_all(logs: Sequence[Transcript], settings: Settings) -> list[Imported]:
    """Import the sessions of one file. Raises `TranscriptError` before any of them is changed."""
    from summarizing_context.errors import MessageError, TranscriptError
    from summarizing_context.messages.validation import check_message

    for log in logs:
        for index, message in enumerate(log.messages):
            try:
                check_message(message)
            except MessageError as error:
                raise TranscriptError(f"{log.where(index)}: {error}") from error
    return [await _import(log, settings) for log in logs]


async def _import(log: Transcript, settings: Settings) -> Imported:
    from summarizing_context.assembly import open_context

    wanted = re.sub(r"[^A-Za-z0-9._:-]+", "-", log.session_id)[:_LONGEST_NAME] or "session"
    messages, copy = list(log.messages), 1
    while True:
        session_id = wanted if copy == 1 else f"{wanted}:{copy}"
        async with open_context(replace(settings, session_id=session_id)) as context:
            held = await context.get_messages()
            if messages[: len(held)] == held:
                for message in messages[len(held) :]:
                    await context.add_message(message)
                return Imported(session_id, str(log.path), log.format, len(messages), len(messages) - len(held))
        copy += 1

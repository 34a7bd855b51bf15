"""`summarizing-context import`: sessions of transcripts go into a store."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import typer

from summarizing_context.cli.options import (
    ConfigPath,
    JsonPath,
    OwnSettings,
    StorePath,
    TranscriptFormat,
    TranscriptPaths,
)
from summarizing_context.cli.output import (
    InputError,
    Status,
    counted,
    examples,
    help_text,
    notices,
    number,
    plain,
    progress_bar,
    show_result,
    table,
    tell_skipped_lines,
    tell_unreadable,
)
from summarizing_context.cli.view import stop_asked
from summarizing_context.settings.addresses import shown_store

if TYPE_CHECKING:
    from rich.progress import Progress

    from summarizing_context.errors import TranscriptError
    from summarizing_context.settings.values import Settings
    from summarizing_context.transcripts import Transcript


_LONGEST_NAME = 180  # characters; a session's name has at most 200
_EXAMPLES = examples(
    "import ~/.claude/projects --store logs.db",
    "import ~/.codex/sessions --store logs.db",
)


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
    from summarizing_context.errors import TranscriptError
    from summarizing_context.transcripts import find_transcripts

    settings = OwnSettings(config).load(store=store)
    if str(settings.store) == ":memory:":
        raise InputError("--store: an import into memory would be lost; name a file")
    files = find_transcripts(paths)
    if not notices().is_terminal:
        notices().print(f"Importing {counted(len(files), 'file')}.")
    with stop_asked() as asked, progress_bar("files", remaining=True) as bar:
        work = _Work(settings, format, bar, asked, len(files))
        work.run(files)
    if work.unreadable and not work.rows:
        raise work.unreadable[0]
    if not (work.rows or asked):
        raise TranscriptError(f"{files[0]}:1: holds no message; name another transcript")
    tell_skipped_lines(work.skipped_lines)
    status = tell_unreadable(work.unreadable)
    _report(work, json_path)
    if asked:
        notices().print(f"Stopped after {work.files} of {counted(len(files), 'file')}; the same command goes on.")
        return Status.INTERRUPTED
    return status


def _report(work: _Work, json_path: str | None) -> None:
    document = {
        "sessions": [row._asdict() for row in work.rows],
        "unreadable": [str(problem) for problem in work.unreadable],
        "skipped": dict(sorted(work.skipped.items())),
        "skipped_lines": work.skipped_lines,
    }
    title = f"Imported into {plain(shown_store(work.settings.store))}"
    shown = table(title, "session", "format", "#messages", "#new", wide="session")
    for row in work.rows:
        shown.add_row(plain(row.session_id), row.format, number(row.messages), number(row.added))
    show_result(json_path, document, shown)


class _Work:
    """An import under way: what is in the store already, and whether it goes on."""

    def __init__(self, settings: Settings, format: str, bar: Progress, asked: Sequence[int], files: int) -> None:
        self.settings = settings
        self.rows: list[Imported] = []
        self.unreadable: list[TranscriptError] = []
        self.skipped: Counter[str] = Counter()
        self.skipped_lines: list[str] = []
        self.files = 0  # that were read to their ends
        self._format = format
        self._messages = 0
        self._bar = bar
        self._task = bar.add_task("import", total=files, words="")
        self._asked = asked  # whether to stop: Ctrl-C, which may come at any message

    def run(self, files: Sequence[Path]) -> None:
        """Import files until all are read, or Ctrl-C."""
        import anyio

        from summarizing_context.errors import TranscriptError
        from summarizing_context.transcripts import read

        for path in files:
            try:
                logs = [log for log in read(path, format=self._format) if log.messages]
                anyio.run(self._import_all, logs)
            except TranscriptError as error:
                self.unreadable.append(error)
            else:
                for log in logs:
                    self.skipped.update(log.skipped)
                    self.skipped_lines += log.unreadable
            if self._asked:
                return
            self.files += 1
            self._goes_on()

    async def _import_all(self, logs: Sequence[Transcript]) -> None:
        """Import the sessions of one file. Raises `TranscriptError` before any of them is changed."""
        from summarizing_context.errors import MessageError, TranscriptError
        from summarizing_context.messages.validation import check_message

        for log in logs:
            for index, message in enumerate(log.messages):
                try:
                    check_message(message)
                except MessageError as error:
                    raise TranscriptError(f"{log.where(index)}: {error}") from error
        for log in logs:
            if self._goes_on():
                self.rows.append(await self._import(log))

    async def _import(self, log: Transcript) -> Imported:
        from summarizing_context.assembly import open_context

        wanted = re.sub(r"[^A-Za-z0-9._:-]+", "-", log.session_id)[:_LONGEST_NAME] or "session"
        messages, copy = list(log.messages), 1
        while True:
            session_id = wanted if copy == 1 else f"{wanted}:{copy}"
            async with open_context(replace(self.settings, session_id=session_id)) as context:
                held = await context.get_messages()
                if messages[: len(held)] == held:
                    for message in messages[len(held) :]:
                        if not self._goes_on():
                            break
                        await context.add_message(message)
                        self._messages += 1
                    return Imported(session_id, str(log.path), log.format, len(context), len(context) - len(held))
            copy += 1

    def _goes_on(self) -> bool:
        words = f"{counted(len(self.rows), 'session')}, {counted(self._messages, 'new message')}"
        self._bar.update(self._task, completed=self.files, words=words)
        return not self._asked

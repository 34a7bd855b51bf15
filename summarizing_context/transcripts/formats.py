"""The table of formats, and the sessions of files and folders."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from summarizing_context.errors import TranscriptError
from summarizing_context.transcripts import chat
from summarizing_context.transcripts.base import AUTO, LISTED, Content, Draft, Format, Transcript, mapping
from summarizing_context.transcripts.claude_code import is_claude_code, read_claude_code
from summarizing_context.transcripts.codex import is_codex, read_codex
from summarizing_context.transcripts.copilot import is_copilot, read_copilot
from summarizing_context.transcripts.files import STDIN, is_spoken, load
from summarizing_context.transcripts.gemini import is_gemini, read_gemini
from summarizing_context.transcripts.gemini_cli import is_gemini_cli, read_gemini_cli
from summarizing_context.transcripts.langchain import is_langchain, read_langchain
from summarizing_context.transcripts.opencode import is_database, is_opencode, read_opencode
from summarizing_context.transcripts.responses import is_responses, read_responses

_OPENCODE = "opencode"  # a database, and so no row of the table

_TABLE = (  # the first that fits is taken
    Format("claude-code", is_claude_code, read_claude_code),
    Format("codex", is_codex, read_codex),
    Format("gemini-cli", is_gemini_cli, read_gemini_cli),
    Format("copilot", is_copilot, read_copilot),
    Format("openai-finetune", chat.is_finetune, chat.read_finetune),
    Format("openai-responses", is_responses, read_responses),
    Format("gemini", is_gemini, read_gemini),
    Format("langchain", is_langchain, read_langchain),
    Format("anthropic", chat.is_anthropic, chat.read_list),
    Format("openai-chat", chat.is_chat, chat.read_list),
    Format("messages", chat.is_anything, chat.read_messages),
)

FORMATS: Mapping[str, Format | None] = {_OPENCODE: None, **{each.name: each for each in _TABLE}}

_SUFFIXES = (".jsonl", ".jsonl.gz", ".json", ".json.gz", ".db")
_LINES = (".jsonl", ".jsonl.gz")  # of a folder all of these; others where a format knows them
_SHOWN = 5  # sessions that an error names
_SIDECARS = (".probes.json", ".meta.json")


def read(path: Path | str, *, format: str = AUTO) -> Iterator[Transcript]:
    """The sessions of a file, `-` for the standard input. Most files hold one. Damaged lines and records are skipped,
    and a session names them, as long as they are no more than the others.

    Raises `TranscriptError`, which begins with `file:line`, for what cannot be read, and for an unknown `format`.
    """
    path = Path(path)
    unreadable: tuple[str, ...] = ()
    if path != STDIN and path.exists() and not (path.is_file() or path.is_dir()):
        raise TranscriptError(f"{path}:1: is a pipe or a device, which may never end; name a file, or - for a pipe")
    if format != AUTO and format not in FORMATS:
        raise TranscriptError(f"{path}: there is no format {format!r}; known are {AUTO}, {', '.join(sorted(FORMATS))}")
    if format == _OPENCODE or (format == AUTO and (path.name.endswith(".db") or is_database(path))):
        drafts, name = read_opencode(path), _OPENCODE
    else:
        content = load(path)
        chosen = FORMATS.get(format) or next(each for each in _TABLE if each.detect(content))
        drafts, name, unreadable = _read_as(chosen, content), chosen.name, tuple(content.unreadable)
    for draft in _mostly_sound(list(drafts)):
        if unreadable:
            draft.skipped["unreadable line"] += len(unreadable)
        if draft.unreadable:
            draft.skipped["unreadable record"] += len(draft.unreadable)
        yield _finished(draft, path, name, (*unreadable, *draft.unreadable))
        unreadable = ()  # they are told once


def read_session(path: Path, session_id: str = "", *, format: str = AUTO) -> Transcript:
    """One session of a file: the named one, else the only one; of Claude Code the session without its sidechains.

    Raises `TranscriptError` where the file holds others, and as `read` does.
    """
    found = list(read(path, format=format))
    named = [each for each in found if each.session_id == session_id]
    if named or len(found) == 1 or (found and found[0].format == "claude-code" and not session_id):
        return (named or found)[0]
    names = ", ".join(each.session_id for each in found[:_SHOWN])
    raise TranscriptError(f"{path}:1: holds {len(found)} sessions ({names}); name a file with one")


def read_named(path: Path, *, format: str = AUTO) -> dict[str, Transcript]:
    """The sessions of a file by the name that reports give them: the file's, and their own where there are several.

    Sessions without any message are left out, unless the file holds nothing else.
    """
    found = list(read(path, format=format))
    spoken = [each for each in found if each.messages] or found[:1]
    return {str(path) if len(spoken) == 1 else f"{path}{LISTED}{each.session_id}": each for each in spoken}


def find_transcripts(paths: Sequence[Path]) -> list[Path]:
    """The transcript files that these files and folders name, folders searched through and sorted.

    Links are followed, and each file is named once.
    """
    if not paths:
        raise TranscriptError(f"no transcript was named; give a {_suffixes()} file, or a folder of them")
    found: dict[Path, Path] = {}
    for path in paths:
        for file in _files_of(path):
            found.setdefault(file.resolve(), file)
    return list(found.values())


def _read_as(chosen: Format, content: Content) -> Iterator[Draft]:
    """The sessions. Raises `TranscriptError` for one JSON value of which the format neither reads nor skips a thing."""
    drafts = list(chosen.read(content))
    if content.is_document and not any(draft.messages or draft.skipped or draft.compactions for draft in drafts):
        raise TranscriptError(f"{content.path}:1: holds no message of the format {chosen.name}; take --format {AUTO}")
    yield from drafts


def _mostly_sound(drafts: list[Draft]) -> list[Draft]:
    """The sessions. Raises `TranscriptError` where more records were skipped as damaged than there are messages.

    What was skipped in a session without any message is told by the first that has one: reports leave the others out.
    """
    unreadable = [told for draft in drafts for told in draft.unreadable]
    if len(unreadable) > sum(len(draft.messages) for draft in drafts):
        raise TranscriptError(unreadable[0])
    spoken = next((draft for draft in drafts if draft.messages), None)
    for draft in drafts:
        if spoken and not draft.messages:
            spoken.unreadable += draft.unreadable
            draft.unreadable = []
    return drafts


def _finished(draft: Draft, path: Path, name: str, unreadable: tuple[str, ...]) -> Transcript:
    return Transcript(
        draft.session_id,
        name,
        tuple(draft.messages),
        dict(sorted(draft.skipped.items())),
        tuple(draft.lines) if len(draft.lines) == len(draft.messages) else (),
        tuple(draft.compactions),
        path,
        unreadable,
    )


def _suffixes() -> str:
    return " or ".join(_SUFFIXES)


def _files_of(path: Path) -> list[Path]:
    if path == STDIN:
        return [path]
    if path.is_dir():
        files = sorted(file for file in _files_under(path) if file.is_file() and _is_transcript(file))
        if not files:
            raise TranscriptError(f"{path}: the folder holds no transcript ({_suffixes()}); name another one")
        return files
    if not path.exists():
        raise TranscriptError(f"{path}: there is no such file or folder; check the path")
    if not path.name.endswith(_SUFFIXES):
        raise TranscriptError(f"{path}: is not {_suffixes()}; rename it if it holds a transcript")
    return [path]


def _files_under(folder: Path) -> Iterator[Path]:
    """The files of a folder and of those in it, also of linked ones; each folder once."""
    seen = {folder.resolve()}
    for root, folders, files in os.walk(folder, followlinks=True):
        inner = {(Path(root) / name).resolve(): name for name in sorted(folders, reverse=True)}
        folders[:] = sorted(name for place, name in inner.items() if place not in seen)
        seen.update(inner)
        yield from (Path(root) / name for name in files)


def _is_transcript(file: Path) -> bool:
    """Whether a file of a folder is one: any JSONL, and others that a format knows, or that name roles of messages.

    Also one that is damaged: reading it tells why.
    """
    if file.name.endswith(_LINES):
        return True
    if not file.name.endswith(_SUFFIXES) or file.name.endswith(_SIDECARS):
        return False
    is_database_file = file.name.endswith(".db")
    try:
        if is_database_file:
            return is_opencode(file)
        content = load(file)
    except TranscriptError:
        return is_database_file or is_spoken(file)  # other JSON may lie in a folder
    is_listed = not content.is_document or isinstance(mapping(content.value).get("messages", content.value), list)
    return any(each.detect(content) for each in _TABLE[:-1]) or (is_listed and is_spoken(file))

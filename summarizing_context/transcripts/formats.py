"""What tells the formats apart, and the sessions of files and folders."""

from __future__ import annotations

import re
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path

from summarizing_context.errors import MessageError, TranscriptError
from summarizing_context.messages.reading import check_message
from summarizing_context.transcripts import claude_code, lists, parts
from summarizing_context.transcripts.base import AUTO, STDIN, Content, Draft, Record, Transcript, load, opened, record
from summarizing_context.transcripts.lists import RECORDS, TYPES

FORMATS: Mapping[str, Callable[[Content], Iterator[Draft]]] = {
    "claude-code": claude_code.read_claude_code,
    "codex": lists.read_codex,
    "gemini-cli": parts.read_gemini_cli,
    "opencode": parts.read_opencode_list,  # or a database
    "openai-finetune": lists.read_finetune,
    "openai-responses": lists.read_responses,
    "gemini": parts.read_gemini,
    "anthropic": lists.read_list,
    "openai-chat": lists.read_list,
    "messages": lists.read_list,  # a message a line
}
_SUFFIXES = (".jsonl", ".jsonl.gz", ".json", ".json.gz", ".db")


def _detect(content: Content) -> str:
    """Return the name of a file's format, by what only its records have; an empty one where none has."""
    messages = content.records("messages")
    has_role = any("role" in row for row in messages)
    marks = {_client_of(row) for row in (record(content.value), *content.rows)}
    unread = "" if has_role else min(marks - {*FORMATS, ""}, default="")
    names = ["Qwen Code", *FORMATS] if unread else FORMATS  # some of its rows look like Claude Code's
    if named := next((name for name in names if name in marks), ""):
        return named

    # Lists of messages. Some have a mark that one record shows, others one that most must show.
    kinds = {block.text("type") for row in messages for block in row.each("content")}
    items = lists.items_of(content)
    contents = content.records("contents", "history")
    if _most(isinstance(row.get("info"), dict) and isinstance(row.get("parts"), list) for row in messages):
        return "opencode"
    is_listed = _most(isinstance(row.get("messages"), list) and "role" not in row for row in messages)
    if is_listed and not content.is_document:
        return "openai-finetune"
    if _most(bool(item) for item in items) and any(map(lists.is_item, items)):
        return "openai-responses"
    if _most(isinstance(row.get("parts"), list) and "content" not in row for row in contents):
        is_vercel = any(row.text("role") == "assistant" for row in contents)
        return "UI messages of the Vercel AI SDK" if is_vercel else "gemini"
    is_chat = all(row.text("role") and "parts" not in row for row in messages if row)
    if content.is_document and is_chat and 2 * sum(map(bool, messages)) >= max(len(messages), 1):
        return "anthropic" if "system" in record(content.value) or kinds & TYPES["anthropic"] else "openai-chat"
    return unread or ("messages" if has_role or content.is_document or not messages else "")


def _most(flags: Iterable[bool]) -> bool:
    found = [*flags]
    return 2 * sum(found) > len(found)


def _client_of(row: Record) -> str:
    """Return the format that alone has such a record; an empty name where several may."""
    kind = row.text("type")
    if "role" in row:
        return ""
    is_beside = kind in TYPES["claude_code_beside"] and {"sessionId", "leafUuid", "snapshot"} & {*row}
    said = record(row.get("message") or row.get("data"))
    if isinstance(said.get("parts"), list) or "systemPayload" in row:
        return "Qwen Code"
    if claude_code.is_in_tree(row) or is_beside:
        return "claude-code"
    if kind in TYPES["codex"] and isinstance(row.get("payload"), dict):
        return "codex"
    if (row.text("sessionId") and "projectHash" in row) or (kind == "gemini" and row.text("id")):
        return "gemini-cli"
    if kind in ("human", "ai", "tool", "system") and "data" in row:
        return "dump of LangChain"
    return next((name for key, name in RECORDS["unread"].items() if key in row), "")


def read(path: Path | str, *, format: str = AUTO) -> Iterator[Transcript]:
    """Yield the sessions of a file, `-` for the standard input. Most files hold one. Damaged lines and records are
    skipped, and a session names them, as long as they are no more than the others.

    Raise `TranscriptError`, which begins with `file:line`, for what cannot be read, and for an unknown `format`.
    """
    path = Path(path)
    if path != STDIN and path.exists() and not (path.is_file() or path.is_dir()):
        raise TranscriptError(f"{path}:1: is a pipe or a device, which may never end; name a file, or - for a pipe")
    if format != AUTO and format not in FORMATS:
        raise TranscriptError(f"{path}: there is no format {format!r}; known are {AUTO}, {', '.join(sorted(FORMATS))}")
    if format in (AUTO, "opencode") and (path.name.endswith(".db") or parts.find_tables(path) is not None):
        content = Content(path, ())
        name, drafts = "opencode", list(parts.read_opencode(content))
    else:
        content = load(path)
        name = format if format in FORMATS else _detect(content)
        if name not in FORMATS:
            what = name or f"lines with {', '.join([*content.rows[0]][:5])}"
            raise TranscriptError(f"{path}:1: unknown format: {what}; name the client's own log, or a list of messages")
        if name == "messages" and content.is_document:
            needed = "it needs a list of messages, or an object with one"
            raise TranscriptError(f"{path}:1: no known format of a transcript; {needed}")
        drafts = list(FORMATS[name](content))
        if content.is_document and not any(draft.messages or draft.skipped for draft in drafts):
            raise TranscriptError(f"{path}:1: holds no message of the format {name}; take --format {AUTO}")

    if len(content.faults) > sum(len(draft.messages) for draft in drafts):
        raise TranscriptError(content.faults[0])
    told = next((draft for draft in drafts if draft.messages), next(iter(drafts), None))  # names what was damaged
    for draft in drafts:
        if draft is told:
            draft.skip("unreadable line", count=len(content.unreadable))
            draft.skip("unreadable record", count=len(content.faults))
        yield Transcript(
            draft.session_id,
            name,
            tuple(draft.messages),
            dict(sorted(draft.skipped.items())),
            tuple(draft.lines) if all(draft.lines) else (),
            path,
            (*content.unreadable, *content.faults) if draft is told else (),
        )


def read_session(path: Path, session_id: str = "", *, format: str = AUTO) -> Transcript:
    """Return one session of a file: the named one, else the only one; of Claude Code that without its sidechains.

    Raise `TranscriptError` where the file holds others, and as `read` does.
    """
    found = list(read(path, format=format))
    named = [each for each in found if each.session_id == session_id]
    if named or len(found) == 1 or (found and found[0].format == "claude-code" and not session_id):
        return (named or found)[0]
    names = ", ".join(each.session_id for each in found[:5])
    raise TranscriptError(f"{path}:1: holds {len(found)} sessions ({names}); name a file with one")


def read_named(path: Path, *, format: str = AUTO) -> dict[str, Transcript]:
    """Return the sessions of a file by the name that reports give them: the file's, and their own where there are
    several. Sessions without any message are left out, unless the file holds nothing else. Raise `TranscriptError` as
    `read` does, and where one holds a message that no context takes."""
    found = list(read(path, format=format))
    spoken = [each for each in found if each.messages] or found[:1]
    for log in spoken:
        for index, message in enumerate(log.messages):
            try:
                check_message(message)
            except MessageError as error:
                raise TranscriptError(f"{log.where(index)}: {error}") from error
    return {str(path) if len(spoken) == 1 else f"{path}#{each.session_id}": each for each in spoken}


def find_transcripts(paths: Sequence[Path]) -> list[Path]:
    """Return the transcript files that these files and folders name, each once; folders searched through, sorted."""
    suffixes = " or ".join(_SUFFIXES)
    if not paths:
        raise TranscriptError(f"no transcript was named; give a {suffixes} file, or a folder of them")
    found: dict[Path, Path] = {}
    for path in paths:
        files = [path]
        if path.is_dir():
            files = sorted(file for file in path.rglob("*") if file.is_file() and _is_transcript(file))
            if not files:
                raise TranscriptError(f"{path}: the folder holds no transcript ({suffixes}); name another one")
        elif path != STDIN and not path.exists():
            raise TranscriptError(f"{path}: there is no such file or folder; check the path")
        elif path != STDIN and not path.name.endswith(_SUFFIXES):
            raise TranscriptError(f"{path}: is not {suffixes}; rename it if it holds a transcript")
        for file in files:
            found.setdefault(file.resolve(), file)
    return list(found.values())


def _is_transcript(file: Path) -> bool:
    """Return whether a file of a folder is one: any JSONL, databases of OpenCode, JSON that a format knows, or a list
    that begins with roles of messages. Also one that is damaged: reading it tells why."""
    if file.name.endswith((".jsonl", ".jsonl.gz")):
        return True
    if not file.name.endswith(_SUFFIXES) or file.name.endswith(".meta.json"):
        return False
    try:
        if file.name.endswith(".db"):
            return (parts.find_tables(file) or set()) >= parts.OPENCODE_TABLES
        content = load(file)
        is_known = _detect(content) in {*FORMATS} - {"messages"}
        is_listed = isinstance(record(content.value).get("messages", content.value), list)
        if is_known or (content.is_document and not is_listed):
            return is_known
    except TranscriptError:
        if file.name.endswith(".db"):
            return True
    with suppress(OSError, EOFError, zlib.error), opened(file) as opening:
        spoken = rb'"(role|type)"\s*:\s*"(user|assistant|system|developer|model|gemini)"'
        return re.search(spoken, opening.read1(100_000)) is not None
    return False


def holds_no_message(file: Path, format: str) -> TranscriptError:
    """Return the error about a transcript in which no message was found."""
    other = "name another transcript" if format == AUTO else f"take --format {AUTO}, or name another transcript"
    return TranscriptError(f"{file}:1: holds no message{f' of the format {format}' if format != AUTO else ''}; {other}")

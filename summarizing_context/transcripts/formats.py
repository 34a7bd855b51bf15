"""The table of formats, and the sessions of files and folders: lines or one JSON value, also compressed."""

from __future__ import annotations

import gzip
import json
import os
import re
import sys
import zlib
from collections.abc import Iterator, Mapping, Sequence
from io import BufferedReader, BytesIO
from itertools import count
from pathlib import Path
from typing import Any

from summarizing_context.errors import TranscriptError
from summarizing_context.transcripts import chat
from summarizing_context.transcripts.base import AUTO, LISTED, Content, Draft, Format, Row, Transcript, mapping, objects
from summarizing_context.transcripts.claude_code import is_claude_code, read_claude_code
from summarizing_context.transcripts.codex import is_codex, read_codex
from summarizing_context.transcripts.copilot import is_copilot, read_copilot
from summarizing_context.transcripts.gemini import is_gemini, is_gemini_cli, read_gemini, read_gemini_cli
from summarizing_context.transcripts.langchain import is_langchain, read_langchain
from summarizing_context.transcripts.opencode import is_database, is_opencode, read_opencode
from summarizing_context.transcripts.responses import is_responses, read_responses

STDIN = Path("-")
_BOM = b"\xef\xbb\xbf"
_GZIP = b"\x1f\x8b"  # begins what gzip wrote
_MOST_UNPACKED, _LINE_COST = 2**28, 32  # bytes of a compressed file, and of the object of each line
_BEGINNING = 100_000  # bytes in which a file of messages names a role
_SPOKEN = re.compile(rb'"(role|type)"\s*:\s*"(user|assistant|system|developer|model|human|ai|gemini)"')


def load(path: Path) -> Content:
    """The content of a file: `.jsonl` is lines and `.json` one value, or else the other; further names are judged by
    how they begin."""
    lines = _lines(path)
    name = path.name.removesuffix(".gz")
    if name.endswith(".jsonl") or not (name.endswith(".json") or _is_document(lines)):
        try:
            return _rows(path, lines)
        except TranscriptError as error:
            return _document_of_objects(path, lines, error)
    try:
        return _document(path, lines)
    except TranscriptError as error:
        try:
            return _rows(path, lines)  # lines after all, under a name that promises one value or after a broken one
        except TranscriptError:
            if _is_document(lines):
                raise error from None
            raise


def _document(path: Path, lines: list[bytes]) -> Content:
    return Content(path, value=_parsed(b"".join(lines), f"{path}:"), is_document=True)


def _document_of_objects(path: Path, lines: list[bytes], problem: TranscriptError) -> Content:
    """One JSON value under a name that promises lines. Raises `problem` where it has no list of objects."""
    try:
        content = _document(path, lines)
    except TranscriptError:
        raise problem from None
    if any(objects(value) for value in (content.value, *mapping(content.value).values())):
        return content
    raise problem


def is_spoken(path: Path) -> bool:
    """Whether a file begins as one with messages does, be it whole or not."""
    try:
        with _opened(path) as file:
            return _SPOKEN.search(file.read1(_BEGINNING)) is not None
    except (OSError, EOFError, zlib.error):
        return False


def _opened(path: Path) -> gzip.GzipFile | BufferedReader:
    return gzip.open(path, "rb") if path.name.endswith(".gz") else path.open("rb")


def _opened_stdin() -> gzip.GzipFile | BytesIO:
    data = BytesIO(sys.stdin.buffer.read())
    return gzip.GzipFile(fileobj=data) if data.getbuffer()[:2] == _GZIP else data


def _lines(path: Path) -> list[bytes]:
    lines: list[bytes] = []
    try:
        with _opened_stdin() if path == STDIN else _opened(path) as file:
            # keeps what came before an error
            lines.extend(unpacked_lines(path, file) if isinstance(file, gzip.GzipFile) else file)
    except (EOFError, zlib.error, gzip.BadGzipFile) as error:
        raise TranscriptError(
            f"{path}:{len(lines) + 1}: the gzip data is damaged ({error}); fetch the file again"
        ) from error
    except OSError as error:
        reason = error.strerror or type(error).__name__
        raise TranscriptError(
            f"{path}:{len(lines) + 1}: cannot be read ({reason}); check the path and its rights"
        ) from error
    if lines:
        lines[0] = lines[0].removeprefix(_BOM)
    return lines


def unpacked_lines(path: Path, file: gzip.GzipFile) -> Iterator[bytes]:
    """Yield the lines of a compressed file. Raise `TranscriptError` for one that takes more memory than a log does: a
    megabyte may unpack to a gigabyte."""
    room = _MOST_UNPACKED
    for number in count(1):
        if not (line := file.readline(room + 1)):
            return
        room -= len(line) + _LINE_COST
        if room < 0:
            raise TranscriptError(
                f"{path}:{number}: unpacks to more than {_MOST_UNPACKED >> 20} MB, as no log should; if it is one, "
                "unpack it first (gunzip) and name that file"
            )
        yield line


def _is_document(lines: list[bytes]) -> bool:
    """Whether this is one JSON value: a list, or an object that does not end with its first line."""
    first = next((line.strip() for line in lines if line.strip()), b"")
    if first.startswith(b"["):
        return True
    if not first.startswith(b"{"):
        return False
    try:
        json.loads(first.decode("utf8", errors="surrogatepass"))
    except (RecursionError, ValueError):
        return sum(bool(line.strip()) for line in lines) > 1
    return False


def _rows(path: Path, lines: list[bytes]) -> Content:
    """The lines that are JSON objects. A client may have died while it wrote, so others are skipped. Raises
    `TranscriptError` where these are the most."""
    rows: list[Row] = []
    unreadable: list[str] = []
    for number, line in enumerate(lines, start=1):
        if not line.strip():
            continue
        try:
            rows.append(Row(number, _object(line, f"{path}:{number}")))
        except TranscriptError as error:
            unreadable.append(str(error))
    if len(unreadable) > len(rows):
        others = f" ({len(unreadable)} of {len(rows) + len(unreadable)} lines are none)" if unreadable[1:] else ""
        raise TranscriptError(f"{unreadable[0]}{others}")
    return Content(path, rows, unreadable=unreadable)


def _object(data: bytes, where: str) -> dict[str, Any]:
    value = _parsed(data, where)
    if not isinstance(value, dict):
        raise TranscriptError(f"{where}: a JSON {_kind(value)}, not an object; each line must be one message")
    return value


def _parsed(data: bytes, where: str) -> Any:
    """The JSON value. `where` ends with the line, or with a colon where the error shall name it."""
    document = where.endswith(":")
    place = f"{where}1" if document else where
    try:
        text = data.decode("utf8", errors="surrogatepass")
        return json.loads(text, parse_constant=lambda _: None)  # NaN and Infinity, as JavaScript writes them
    except UnicodeDecodeError as error:
        line = data[: error.start].count(b"\n") + 1
        place = f"{where}{line}" if document else where
        raise TranscriptError(f"{place}: byte {error.start + 1} is not UTF-8; convert the file to UTF-8") from error
    except json.JSONDecodeError as error:
        place = f"{where}{error.lineno}" if document else where
        rule = "the file must be one JSON value" if document else "each line must be one JSON object"
        fault = error.msg.removesuffix(" at")
        raise TranscriptError(f"{place}: not JSON: {fault} at column {error.colno}; {rule}") from error
    except (RecursionError, ValueError) as error:
        what = "file" if document else "line"
        raise TranscriptError(
            f"{place}: JSON that cannot be read ({type(error).__name__}); simplify this {what}"
        ) from error


def _kind(value: object) -> str:
    if isinstance(value, list):
        return "array"
    return "string" if isinstance(value, str) else "null" if value is None else "number or truth value"


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

"""The values of this room: what a file holds, and a session while it is read."""

from __future__ import annotations

import gzip
import json
import sys
import zlib
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from io import BufferedReader, BytesIO
from pathlib import Path
from typing import Any

from summarizing_context.errors import TranscriptError
from summarizing_context.messages.reading import Message, content_texts

AUTO, STDIN = "auto", Path("-")
SUMMARY = "compaction summary"  # of a client: all that it stands for is in the log


class Record(dict[str, Any]):
    """An object of a log, whose values are read as what they should be: a client may have written others."""

    line = 0  # of the file, from 1; 0 where the file is one JSON value

    def text(self, *names: str) -> str:
        """Return the first of these values that is a string with something in it, else an empty one."""
        return next((value for name in names if isinstance(value := self.get(name), str) and value), "")

    def at(self, name: str) -> Record:
        """Return the object of this name, else an empty one."""
        return record(self.get(name))

    def each(self, name: str) -> list[Record]:
        """Return the objects in the list of this name."""
        return [Record(item) for item in listed(self.get(name)) if isinstance(item, dict)]


def record(value: object, line: int = 0) -> Record:
    """Return `value` where it is an object, else an empty one."""
    made = Record(value) if isinstance(value, dict) else Record()
    made.line = line
    return made


def listed(value: object) -> list[Any]:
    """Return `value` where it is a list, else an empty one."""
    return value if isinstance(value, list) else []


def tool_call(call_id: object, name: object, arguments: object) -> dict[str, Any]:
    """Return a call in the shape of chat. Arguments that are no text are written as JSON."""
    text = arguments if isinstance(arguments, str) else json.dumps(arguments or {})
    return {"id": str(call_id or ""), "type": "function", "function": {"name": str(name or ""), "arguments": text}}


def text_of(content: object) -> str:
    """Return the text of a content that is a string or a list of blocks."""
    return "\n".join(content_texts(content)) if isinstance(content, str | list) else ""


def plain(content: Any) -> Any:
    """Return a content in the shape of chat; blocks that are all text as their text."""
    is_text = isinstance(content, list) and all(record(block).get("type") == "text" for block in content)
    return text_of(content) if is_text else content


@dataclass(frozen=True, slots=True)
class Transcript:
    session_id: str
    format: str
    messages: tuple[Message, ...]
    skipped: Mapping[str, int]  # records that are no messages, by their kind
    lines: tuple[int, ...] = ()  # of each message, from 1; none where the file is one JSON value
    path: Path = Path()
    unreadable: tuple[str, ...] = ()  # lines and records that were skipped as damaged, as `file:line: why`

    def where(self, index: int) -> str:
        """Return the place of a message, as errors name it."""
        if self.lines:
            return f"{self.path}:{self.lines[index]}"
        return f"{self.path}:1: message {index + 1} of session {self.session_id}"


@dataclass(frozen=True, slots=True)
class Content:
    """What a JSON file holds: lines, or one value."""

    path: Path
    rows: Sequence[Record]  # of one value the items of its list; what is no object is an empty one
    value: Any = None
    is_document: bool = False
    unreadable: Sequence[str] = ()  # lines that are no JSON objects, as `file:line: why`
    faults: list[str] = field(default_factory=list)  # records that were skipped as damaged, in the same way

    def walk(self, at: Draft, rows: Sequence[Record], read: Callable[[Record], object], why: str) -> Iterator[Record]:
        """Yield what `read` makes of the rows, while the draft stands there. If it is nothing, `why` is a fault."""
        for number, row in enumerate(rows, start=1):
            at.line = row.line
            if isinstance(found := read(row), Record) and found:
                yield found
            else:
                self.fault(row.line, why.format(number))

    def fault(self, line: int, what: str) -> None:
        """Note that a record was skipped as damaged."""
        self.faults.append(f"{self.path}:{line or 1}: {what}")

    @property
    def stem(self) -> str:
        return self.path.name.split(".json")[0] or "transcript"

    def records(self, *names: str) -> Sequence[Record]:
        """Return the rows; of one object the items of its lists of these names."""
        held = record(self.value)
        return [record(item) for name in names for item in listed(held.get(name))] if held else self.rows


@dataclass(slots=True)
class Draft:
    session_id: str
    line: int = 0  # of the row that is being read; 0 where the file is one JSON value
    messages: list[Message] = field(default_factory=list)
    lines: list[int] = field(default_factory=list)
    skipped: Counter[str] = field(default_factory=Counter)
    open_calls: list[tuple[object, str]] = field(default_factory=list)  # name and id, where names answer them
    made_calls: int = 0
    reply: Message | None = None  # that of the assistant which takes further calls

    def add(self, message: Message) -> None:
        self.messages.append(message)
        self.lines.append(self.line)

    def say(self, role: str, content: Any, calls: Sequence[Any] = (), marks: Any = None) -> None:
        marked = {"metadata": dict(marks)} if marks else {}
        called = {"tool_calls": [*calls]} if calls else {}
        self.add({"role": role, "content": plain(content), **marked, **called})

    def answer(self, call_id: object, content: Any) -> None:
        self.add({"role": "tool", "tool_call_id": str(call_id or ""), "content": plain(content)})

    def skip(self, *names: object, count: int = 1) -> None:
        """Count what is no message under a name such as `response_item:reasoning`."""
        kind = ":".join(name for name in names if isinstance(name, str) and name) or "unnamed"
        self.skipped.update({kind: int(count)} if count else {})


def opened(path: Path) -> gzip.GzipFile | BufferedReader | BytesIO:
    """Open a file, or the standard input, for reading what it holds unpacked."""
    if path == STDIN:
        data = BytesIO(sys.stdin.buffer.read())
        return gzip.GzipFile(fileobj=data) if data.getvalue()[:2] == b"\x1f\x8b" else data
    return gzip.open(path, "rb") if path.name.endswith(".gz") else path.open("rb")


def load(path: Path) -> Content:
    """Return the content of a file: `.json` is one value and others are lines, or else the other way."""
    try:
        with opened(path) as file:
            bound = 2**28 if isinstance(file, gzip.GzipFile) else 0  # a megabyte may unpack to a gigabyte
            data = file.read(bound + 1 if bound else -1)
    except (EOFError, zlib.error, gzip.BadGzipFile) as error:
        raise TranscriptError(f"{path}:1: the gzip data is damaged ({error}); fetch the file again") from error
    except OSError as error:
        fault = f"cannot be read ({error.strerror or type(error).__name__}); check the path and its rights"
        raise TranscriptError(f"{path}:1: {fault}") from error
    if bound and len(data) + 32 * data.count(b"\n") > bound:  # each line takes room by itself
        fault = f"unpacks to more than {bound >> 20} MB, as no log should"
        raise TranscriptError(f"{path}:1: {fault}; if it is one, unpack it first (gunzip) and name that file")

    data = data.removeprefix(b"\xef\xbb\xbf")
    name = path.name.removesuffix(".gz")
    is_lines = name.endswith(".jsonl") or not (name.endswith(".json") or data.lstrip().startswith(b"["))
    first, other = (_rows, _document) if is_lines else (_document, _rows)
    try:
        return first(path, data)
    except TranscriptError:
        with suppress(TranscriptError):
            content = other(path, data)
            found = (content.value, *record(content.value).values())
            if not is_lines or any(isinstance(item, dict) for value in found for item in listed(value)):
                return content
        raise


def _document(path: Path, data: bytes) -> Content:
    value = _parsed(data, path, 0)
    return Content(path, [record(item) for item in listed(value)], value, is_document=True)


def _rows(path: Path, data: bytes) -> Content:
    """Return the lines that are JSON objects. A client may have died while it wrote: some may be none, not most."""
    rows: list[Record] = []
    unreadable: list[str] = []
    for number, line in enumerate(data.split(b"\n"), start=1):
        if line.strip():
            try:
                rows.append(record(_parsed(line, path, number), number))
            except TranscriptError as error:
                unreadable.append(str(error))
    if len(unreadable) > len(rows):
        others = f" ({len(unreadable)} of {len(rows) + len(unreadable)} lines are none)" if unreadable[1:] else ""
        raise TranscriptError(f"{unreadable[0]}{others}")
    return Content(path, rows, unreadable=unreadable)


def _parsed(data: bytes, path: Path, number: int) -> Any:
    """Return the JSON value of a line, or of the whole file, whose number is 0."""
    try:
        text = data.decode("utf8", errors="surrogatepass")
        value = json.loads(text, parse_constant=lambda _: None)  # NaN and Infinity, as JavaScript writes them
    except UnicodeDecodeError as error:
        line = number or data[: error.start].count(b"\n") + 1
        fault = f"byte {error.start + 1} is not UTF-8; convert the file to UTF-8"
        raise TranscriptError(f"{path}:{line}: {fault}") from error
    except json.JSONDecodeError as error:
        rule = "each line must be one JSON object" if number else "the file must be one JSON value"
        fault = f"not JSON: {error.msg.removesuffix(' at')} at column {error.colno}"
        raise TranscriptError(f"{path}:{number or error.lineno}: {fault}; {rule}") from error
    except (RecursionError, ValueError) as error:
        fault = f"JSON that cannot be read ({type(error).__name__}); simplify this {'line' if number else 'file'}"
        raise TranscriptError(f"{path}:{number or 1}: {fault}") from error
    if number and not isinstance(value, dict):
        kind = {list: "array", str: "string", type(None): "null"}.get(type(value), "number or truth value")
        raise TranscriptError(f"{path}:{number}: a JSON {kind}, not an object; each line must be one message")
    return value

"""What a JSON file holds: lines or one value, also compressed, whatever its name promises."""

from __future__ import annotations

import gzip
import json
import re
import sys
import zlib
from collections.abc import Iterator
from contextlib import suppress
from io import BufferedReader, BytesIO
from itertools import count
from pathlib import Path
from typing import Any

from summarizing_context.errors import TranscriptError
from summarizing_context.transcripts.base import Content, Record, listed, record

STDIN = Path("-")
_MOST_UNPACKED, _LINE_COST = 2**28, 32  # bytes of a compressed file, and of the object of each line
_SPOKEN = re.compile(rb'"(role|type)"\s*:\s*"(user|assistant|system|developer|model|human|ai|gemini)"')


def load(path: Path) -> Content:
    """Return the content of a file: `.jsonl` is lines and `.json` one value, or else the other; further names are
    judged by how they begin. Raise `TranscriptError` for what is neither."""
    lines: list[bytes] = []
    try:
        with _opened(path) as file:  # what came before an error is kept
            lines.extend(unpacked_lines(path, file) if isinstance(file, gzip.GzipFile) else file)
    except (EOFError, zlib.error, gzip.BadGzipFile) as error:
        fault = f"the gzip data is damaged ({error}); fetch the file again"
        raise TranscriptError(f"{path}:{len(lines) + 1}: {fault}") from error
    except OSError as error:
        fault = f"cannot be read ({error.strerror or type(error).__name__}); check the path and its rights"
        raise TranscriptError(f"{path}:{len(lines) + 1}: {fault}") from error
    if lines:
        lines[0] = lines[0].removeprefix(b"\xef\xbb\xbf")

    name = path.name.removesuffix(".gz")
    looks_whole = _looks_whole(lines)
    is_lines = name.endswith(".jsonl") or not (name.endswith(".json") or looks_whole)
    first, other = (_rows, _document) if is_lines else (_document, _rows)
    try:
        return first(path, lines)
    except TranscriptError:
        if not is_lines and not looks_whole:
            return _rows(path, lines)  # whose error says more
        with suppress(TranscriptError):
            content = other(path, lines)
            found = (content.value, *record(content.value).values())
            if not is_lines or any(isinstance(item, dict) for value in found for item in listed(value)):
                return content
        raise


def is_spoken(path: Path) -> bool:
    """Return whether a file begins as one with messages does, be it whole or not."""
    try:
        with _opened(path) as file:
            return _SPOKEN.search(file.read1(100_000)) is not None
    except (OSError, EOFError, zlib.error):
        return False


def _opened(path: Path) -> gzip.GzipFile | BufferedReader | BytesIO:
    if path == STDIN:
        data = BytesIO(sys.stdin.buffer.read())
        return gzip.GzipFile(fileobj=data) if data.getvalue()[:2] == b"\x1f\x8b" else data
    return gzip.open(path, "rb") if path.name.endswith(".gz") else path.open("rb")


def unpacked_lines(path: Path, file: gzip.GzipFile) -> Iterator[bytes]:
    """Yield the lines of a compressed file. Raise `TranscriptError` for one that takes more memory than a log does: a
    megabyte may unpack to a gigabyte."""
    room = _MOST_UNPACKED
    for number in count(1):
        if not (line := file.readline(room + 1)):
            return
        room -= len(line) + _LINE_COST
        if room < 0:
            fault = f"unpacks to more than {_MOST_UNPACKED >> 20} MB, as no log should"
            advice = "if it is one, unpack it first (gunzip) and name that file"
            raise TranscriptError(f"{path}:{number}: {fault}; {advice}")
        yield line


def _looks_whole(lines: list[bytes]) -> bool:
    """Return whether this is one JSON value: a list, or an object that does not end with its first line."""
    spoken = [line.strip() for line in lines if line.strip()]
    if not spoken or not spoken[0].startswith(b"{"):
        return bool(spoken) and spoken[0].startswith(b"[")
    try:
        json.loads(spoken[0].decode("utf8", errors="surrogatepass"))
    except (RecursionError, ValueError):
        return len(spoken) > 1
    return False


def _document(path: Path, lines: list[bytes]) -> Content:
    value = _parsed(b"".join(lines), path, 0)
    return Content(path, [record(item) for item in listed(value)], value, is_document=True)


def _rows(path: Path, lines: list[bytes]) -> Content:
    """Return the lines that are JSON objects. A client may have died while it wrote, so others are skipped. Raise
    `TranscriptError` where these are the most."""
    rows: list[Record] = []
    unreadable: list[str] = []
    kinds: dict[type, str] = {list: "array", str: "string", type(None): "null"}
    for number, line in enumerate(lines, start=1):
        try:
            value = _parsed(line, path, number) if line.strip() else None
            if isinstance(value, dict):
                rows.append(record(value, number))
            elif line.strip():
                kind = kinds.get(type(value), "number or truth value")
                unreadable.append(f"{path}:{number}: a JSON {kind}, not an object; each line must be one message")
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
        return json.loads(text, parse_constant=lambda _: None)  # NaN and Infinity, as JavaScript writes them
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

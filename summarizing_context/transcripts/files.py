"""Files of JSON: lines or one value, also compressed, with errors that name the line."""

from __future__ import annotations

import gzip
import json
import re
import sys
import zlib
from io import BufferedReader, BytesIO
from pathlib import Path
from typing import Any

from summarizing_context.errors import TranscriptError
from summarizing_context.transcripts.base import Content, Row, mapping, objects

STDIN = Path("-")
_BOM = b"\xef\xbb\xbf"
_GZIP = b"\x1f\x8b"  # begins what gzip wrote
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
            lines.extend(file)  # keeps what came before an error
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

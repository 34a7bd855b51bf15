"""Transcript files of the formats in `READERS`, and folders of them.

Only the file is read here. A context validates the messages. To add a format, write a reader and its line in `READERS`.
"""

from __future__ import annotations

import gzip
import json
import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple

from summarizing_context.errors import TranscriptError

_BOM = b"\xef\xbb\xbf"


class Line(NamedTuple):
    """One message of a transcript, and where it stands."""

    number: int  # from 1
    message: dict[str, Any]


def find_transcripts(paths: Sequence[Path]) -> list[Path]:
    """The transcript files that these files and folders name, folders searched through and sorted; each once."""
    if not paths:
        raise TranscriptError(f"no transcript was named; give a {_suffixes()} file, or a folder of them")
    found: dict[Path, None] = {}
    for path in paths:
        found.update(dict.fromkeys(_files_of(path)))
    return list(found)


def read_transcript(path: Path) -> Iterator[Line]:
    """The messages of one file in order, as the reader of its suffix gives them."""
    return READERS[_suffix_of(path)](path)


def read_jsonl(path: Path) -> Iterator[Line]:
    """One message a line, without the keys that begin with `_`; blank lines are passed over."""
    number = 0
    try:
        with _open(path) as file:
            for number, raw in enumerate(file, start=1):  # the except clauses name the line
                data = raw.removeprefix(_BOM) if number == 1 else raw
                if data.strip():
                    yield Line(number, _message(data, f"{path}:{number}"))
    except (EOFError, zlib.error, gzip.BadGzipFile) as error:
        raise TranscriptError(
            f"{path}:{number + 1}: the gzip data is damaged ({error}); fetch the file again"
        ) from error
    except OSError as error:
        reason = error.strerror or type(error).__name__
        raise TranscriptError(
            f"{path}:{number + 1}: cannot be read ({reason}); check the path and its rights"
        ) from error


READERS: Mapping[str, Callable[[Path], Iterator[Line]]] = {  # by the end of a file's name
    ".jsonl": read_jsonl,
    ".jsonl.gz": read_jsonl,
}


def _suffixes() -> str:
    return " or ".join(READERS)


def _suffix_of(path: Path) -> str:
    for suffix in READERS:
        if path.name.endswith(suffix):
            return suffix
    raise TranscriptError(f"{path}: is not {_suffixes()}; rename it if it holds one message a line")


def _files_of(path: Path) -> list[Path]:
    if path.is_dir():
        files = sorted(file for file in path.rglob("*") if file.name.endswith(tuple(READERS)) and file.is_file())
        if not files:
            raise TranscriptError(f"{path}: the folder holds no {_suffixes()} file; name another one")
        return files
    if not path.exists():
        raise TranscriptError(f"{path}: there is no such file or folder; check the path")
    _suffix_of(path)
    return [path]


def _open(path: Path) -> BinaryIO | gzip.GzipFile:
    return gzip.open(path, "rb") if path.name.endswith(".gz") else path.open("rb")


def _message(data: bytes, where: str) -> dict[str, Any]:
    try:
        value = json.loads(data.decode("utf8", errors="surrogatepass"))
    except UnicodeDecodeError as error:
        raise TranscriptError(f"{where}: byte {error.start + 1} is not UTF-8; convert the file to UTF-8") from error
    except json.JSONDecodeError as error:
        problem = f"{error.msg} at column {error.colno}"
        raise TranscriptError(f"{where}: not JSON: {problem}; each line must be one JSON object") from error
    except (RecursionError, ValueError) as error:
        raise TranscriptError(
            f"{where}: JSON that cannot be read ({type(error).__name__}); simplify this line"
        ) from error
    if not isinstance(value, dict):
        raise TranscriptError(f"{where}: a JSON {_kind(value)}, not an object; each line must be one message")
    return {key: item for key, item in value.items() if not key.startswith("_")}


def _kind(value: object) -> str:
    if isinstance(value, list):
        return "array"
    return "string" if isinstance(value, str) else "null" if value is None else "number or truth value"

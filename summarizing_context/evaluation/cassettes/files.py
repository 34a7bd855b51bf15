"""Cassettes as files of sorted JSON lines.

The first line names format and version, the next lines hold the long texts, the others the recorded requests. A file
is replaced atomically under a lock, so readers see a whole file and two recorders keep both their replies.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

import msgspec
from filelock import FileLock, Timeout

from summarizing_context.errors import CassetteError
from summarizing_context.evaluation.cassettes.requests import Reply, Request, Take, canonical, text_hash
from summarizing_context.stores.private_files import FILE, make_private_folder, write_private

VERSION = 1

_LONG = 300  # characters of a text that is written once, apart

_WAIT = 30.0  # seconds for the lock of another recorder, who holds it for one write


class _Head(msgspec.Struct, tag_field="line", tag="cassette", forbid_unknown_fields=True):
    version: int


class _Text(msgspec.Struct, tag_field="line", tag="text", forbid_unknown_fields=True):
    hash: str
    text: str


class _StoredRequest(msgspec.Struct, forbid_unknown_fields=True):
    kind: str
    maker: str
    system: str | dict[str, str]
    user: list[str | dict[str, str]]
    max_tokens: int
    prompt: str
    replicate: int


class _Line(msgspec.Struct, tag_field="line", tag="take", forbid_unknown_fields=True):
    key: str
    request: _StoredRequest
    reply: Reply
    recorded_at: str


_decoder = msgspec.json.Decoder(_Head | _Text | _Line)


def read_takes(path: Path) -> dict[str, Take]:
    """What a cassette holds, by key. Raises `CassetteError` that names file and line."""
    try:
        content = path.read_bytes()
    except OSError as error:
        raise CassetteError(
            f"{path}: the cassette cannot be read ({error.strerror}); check the path and its rights"
        ) from error
    lines = content.split(b"\n")
    if lines.pop():
        raise CassetteError(
            f"{path}:{len(lines) + 1}: the last line is cut off; bring the file back, or delete it and record again"
        )
    texts: dict[str, str] = {}
    takes: dict[str, Take] = {}
    for number, line in enumerate(lines, 1):
        _read_line(_parsed(line, number, path), f"{path}:{number}", texts, takes)
    if not lines:
        raise CassetteError(f"{path}:1: the file is empty; delete it and record again")
    return takes


def save_takes(path: Path, takes: Mapping[str, Take]) -> dict[str, Take]:
    """Put `takes` into the file beside what it holds by now; what it holds then."""
    check_writable(path)
    try:
        with FileLock(f"{path}.lock", timeout=_WAIT, mode=FILE):
            merged = {**(read_takes(path) if path.exists() else {}), **takes}
            beside = path.with_name(f"{path.name}.{os.getpid()}.new")
            try:
                write_private(beside, b"".join(line + b"\n" for line in _lines(merged)))
                os.replace(beside, path)
            finally:
                beside.unlink(missing_ok=True)
    except Timeout as error:
        raise CassetteError(f"{path}: another process holds {path.name}.lock; end it, and record again") from error
    except OSError as error:
        raise CassetteError(
            f"{path}: the cassette cannot be written ({error.strerror}); name another file, or correct the rights"
        ) from error
    return merged


def check_writable(path: Path) -> None:
    """Raise `CassetteError` where no file could be put, before anything is paid for."""
    try:
        make_private_folder(path.parent)
        if path.is_dir() or not os.access(path.parent, os.W_OK | os.X_OK):
            raise CassetteError(f"{path}: no cassette can be written here; name another file, or correct the rights")
    except OSError as error:
        raise CassetteError(f"{path}: no cassette can be written here ({error.strerror}); name another file") from error


def _parsed(line: bytes, number: int, path: Path) -> _Head | _Text | _Line:
    try:
        found: _Head | _Text | _Line = _decoder.decode(line)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise CassetteError(
            f"{path}:{number}: not a line of a cassette ({error}); bring the file back, or delete it and record again"
        ) from error
    if isinstance(found, _Head) != (number == 1):
        raise CassetteError(f"{path}:{number}: a cassette begins with the one line that names its version")
    return found


def _read_line(line: _Head | _Text | _Line, where: str, texts: dict[str, str], takes: dict[str, Take]) -> None:
    if isinstance(line, _Head):
        if line.version != VERSION:
            raise CassetteError(
                f"{where}: version {line.version}; this version of the package reads version {VERSION}; record again"
            )
    elif isinstance(line, _Text):
        if line.hash in texts or text_hash(line.text) != line.hash:
            raise CassetteError(f"{where}: the text was edited, or is there twice; record again what uses it")
        texts[line.hash] = line.text
    else:
        request = _request(line.request, where, texts)
        if line.key in takes:
            raise CassetteError(f"{where}: the key {line.key[:12]} stands there twice; delete one of the lines")
        if request.key != line.key:
            raise CassetteError(f"{where}: the request was edited, the key {line.key[:12]} is another's; record again")
        takes[line.key] = Take(request, line.reply, line.recorded_at)


def _request(stored: _StoredRequest, where: str, texts: Mapping[str, str]) -> Request:
    def whole(part: str | dict[str, str]) -> str:
        if isinstance(part, str):
            return part
        if part.keys() != {"hash"} or part["hash"] not in texts:
            raise CassetteError(f"{where}: a text of the request is not in the file; bring it back, or record again")
        return texts[part["hash"]]

    fields = msgspec.structs.asdict(stored)
    return Request(**{**fields, "system": whole(stored.system), "user": tuple(map(whole, stored.user))})


def _lines(takes: Mapping[str, Take]) -> Iterator[bytes]:
    yield canonical(_Head(VERSION))
    shared = {text_hash(text): text for take in takes.values() for text in _long_texts(take.request)}
    yield from (canonical(_Text(hash, shared[hash])) for hash in sorted(shared))
    for key in sorted(takes):
        take = takes[key]
        stored = _StoredRequest(**_folded(take.request))
        yield canonical(_Line(key, stored, take.reply, take.recorded_at))


def _long_texts(request: Request) -> Iterable[str]:
    return (text for text in (request.system, *request.user) if len(text) >= _LONG)


def _folded(request: Request) -> dict[str, Any]:
    """The fields of a request, its long texts by their hashes."""

    def short(text: str) -> str | dict[str, str]:
        return {"hash": text_hash(text)} if len(text) >= _LONG else text

    return {**asdict(request), "system": short(request.system), "user": [short(part) for part in request.user]}

"""Cases as files: a transcript `name.jsonl` and beside it a sidecar `name.probes.json`, bound by one hash.

A transcript without a sidecar is a case too: it is cut in places that depend on nothing but its length, and asked
only what hindsight finds. Whether the probes of a sidecar are sound is `lint`'s business.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import msgspec

from summarizing_context.errors import MessageError, TranscriptError
from summarizing_context.evaluation.cases.model import Case, Cut, Message, Probe
from summarizing_context.evaluation.transcripts import read_transcript
from summarizing_context.messages.validation import canonical_json, check_message
from summarizing_context.stores.private_files import write_private

SIDECAR = ".probes.json"

FORMAT = 1

SHARES = (0.4, 0.6, 0.8)  # of an unlabelled transcript: where it is cut

_HASH = "hash"


class Sidecar(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What stands beside a transcript."""

    cuts: list[Cut]
    probes: list[Probe]
    title: str = ""
    domain: str = ""
    source: str = "written"
    licence: str = ""
    format: int = FORMAT
    hash: str = ""  # over the messages and everything else here


def read_case(path: Path, *, budget: int, name: str = "") -> Case:
    """The case of a transcript file, called by its file's name unless told otherwise; with a sidecar, its own cuts and
    budgets."""
    messages = _messages(path)
    name = name or _name(path)
    sidecar = sidecar_path(path)
    if not sidecar.exists():
        return Case(
            id=name, messages=messages, cuts=default_cuts(messages, budget, SHARES), title=name, source="transcript"
        )
    told = _read_sidecar(sidecar)
    if told.hash != case_hash(messages, told):
        raise TranscriptError(
            f"{sidecar}:1: its hash does not fit the transcript and the probes; look at what was changed, "
            "then seal it with `eval lint --seal`"
        )
    return _case(name, messages, told)


def read_unsealed(path: Path) -> Case:
    """The case of a transcript with a sidecar, whatever its hash says."""
    messages = _messages(path)
    return _case(_name(path), messages, _read_sidecar(sidecar_path(path)))


def write_case(case: Case, folder: Path) -> Path:
    """Write a case as a transcript and its sidecar; the transcript's path."""
    path = folder / f"{case.id}.jsonl"
    write_private(path, "".join(canonical_json(message) + "\n" for message in case.messages))
    sidecar = Sidecar(
        cuts=list(case.cuts),
        probes=list(case.probes),
        title=case.title,
        domain=case.domain,
        source=case.source,
        licence=case.licence,
    )
    _write_sidecar(path, sidecar, case.messages)
    return path


def seal(path: Path) -> None:
    """Write the right hash into the sidecar of a transcript."""
    messages = _messages(path)
    _write_sidecar(path, _read_sidecar(sidecar_path(path)), messages)


def case_hash(messages: Sequence[Message], sidecar: Sidecar) -> str:
    """SHA-256 over the messages and all of the sidecar but its hash."""
    told = msgspec.to_builtins(msgspec.structs.replace(sidecar, hash=""))
    return hashlib.sha256(canonical_json([list(messages), told]).encode("utf8", "surrogatepass")).hexdigest()


def sidecar_path(path: Path) -> Path:
    return path.with_name(_name(path) + SIDECAR)


def short_names(paths: Sequence[Path]) -> dict[Path, str]:
    """A name for each file: its own, with as much of its path before it as tells it from the others."""
    names = {path: _name(path) for path in paths}
    parts = 0
    while crowded := {name for name, count in Counter(names.values()).items() if count > 1}:
        parts += 1
        names = {path: "/".join(path.parts[-parts:]) if name in crowded else name for path, name in names.items()}
    return names


def default_cuts(messages: Sequence[Message], budget: int, shares: Sequence[float]) -> tuple[Cut, ...]:
    """Cuts before the assistant messages nearest to these shares of the session."""
    places = [at for at, message in enumerate(messages) if message.get("role") == "assistant" and at > 0]
    wanted = {min(places, key=lambda at: abs(at - share * len(messages))) for share in shares} if places else set()
    return tuple(Cut(at=at, budget=budget) for at in sorted(wanted))


def _messages(path: Path) -> tuple[Message, ...]:
    """The messages of a file, each of which a context would take."""
    found: list[Message] = []
    for line in read_transcript(path):
        try:
            check_message(line.message)
        except MessageError as error:
            raise TranscriptError(f"{path}:{line.number}: {error}") from error
        found.append(line.message)
    return tuple(found)


def _case(name: str, messages: tuple[Message, ...], told: Sidecar) -> Case:
    return Case(
        id=name,
        messages=messages,
        cuts=tuple(told.cuts),
        probes=tuple(told.probes),
        title=told.title or name,
        domain=told.domain,
        source=told.source,
        licence=told.licence,
    )


def _name(path: Path) -> str:
    return path.name.removesuffix(".gz").removesuffix(".jsonl")


def _read_sidecar(path: Path) -> Sidecar:
    try:
        found = msgspec.json.decode(path.read_bytes(), type=Sidecar)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise TranscriptError(f"{path}:1: no sidecar of probes: {error}; the format is in evals/README.md") from error
    if found.format != FORMAT:
        raise TranscriptError(f"{path}:1: format {found.format}; this version reads format {FORMAT}")
    return found


def _write_sidecar(path: Path, sidecar: Sidecar, messages: Sequence[Message]) -> None:
    sealed = msgspec.structs.replace(sidecar, hash=case_hash(messages, sidecar))
    told: dict[str, Any] = msgspec.to_builtins(sealed)
    told["probes"] = [
        {name: value for name, value in probe.items() if value not in (None, (), [])} for probe in told["probes"]
    ]
    write_private(sidecar_path(path), msgspec.json.format(msgspec.json.encode(told), indent=1) + b"\n")

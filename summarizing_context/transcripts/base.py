"""The values of this room: what is read from a file, and what a format is."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

AUTO = "auto"
LISTED = "#"  # before a session's number, where a file holds several

Message = dict[str, Any]


class Row(NamedTuple):
    """One JSON object of a file, and its line from 1."""

    line: int
    value: dict[str, Any]


@dataclass(frozen=True, slots=True)
class Compaction:
    """A place where the client that wrote the log compacted its own context."""

    at: int  # index of the first message after it
    trigger: str | None = None  # "auto" or "manual"
    tokens_before: int | None = None  # as the client recorded them, its tools and system prompt included
    tokens_after: int | None = None
    summary: str = ""  # the client's own


@dataclass(frozen=True, slots=True)
class Transcript:
    """One session of a file."""

    session_id: str
    format: str
    messages: tuple[Message, ...]
    skipped: Mapping[str, int]  # records that are no messages, by their kind
    lines: tuple[int, ...] = ()  # of each message, from 1; none where the file is one JSON value
    compactions: tuple[Compaction, ...] = ()
    path: Path = Path()
    unreadable: tuple[str, ...] = ()  # lines and records that were skipped as damaged, as `file:line: why`

    def where(self, index: int) -> str:
        """The place of a message, as errors name it."""
        if self.lines:
            return f"{self.path}:{self.lines[index]}"
        return f"{self.path}:1: message {index + 1} of session {self.session_id}"


@dataclass(slots=True)
class Draft:
    """A session while it is read."""

    session_id: str
    messages: list[Message] = field(default_factory=list)
    lines: list[int] = field(default_factory=list)
    skipped: Counter[str] = field(default_factory=Counter)
    compactions: list[Compaction] = field(default_factory=list)
    unreadable: list[str] = field(default_factory=list)  # what was skipped as damaged, as `file:line: why`

    def add(self, message: Message, line: int = 0) -> None:
        """Append a message. `line` is 0 where the file is one JSON value."""
        self.messages.append(message)
        if line:
            self.lines.append(line)


@dataclass(frozen=True, slots=True)
class Content:
    """What a JSON file holds: rows of JSONL, or one value."""

    path: Path
    rows: Sequence[Row] = ()
    value: Any = None
    is_document: bool = False
    unreadable: Sequence[str] = ()  # lines that are no JSON objects, as `file:line: why`

    @property
    def stem(self) -> str:
        """The file's name without its endings."""
        return self.path.name.split(".json")[0] or "transcript"

    def records(self, found: object) -> list[tuple[int, Any]]:
        """The rows with their lines; for one JSON value the items of `found`, its list, on line 0."""
        return [(0, item) for item in listed(found)] if self.is_document else list(self.rows)


class Format(NamedTuple):
    """A format of JSON files: whether a file has it, and its sessions."""

    name: str
    detect: Callable[[Content], bool]
    read: Callable[[Content], Iterator[Draft]]


def most(flags: Iterable[bool]) -> bool:
    """Whether more of these are true than not."""
    counts = Counter(flags)
    return counts[True] > counts[False]


def text_of(content: object) -> str:
    """The text of a content that is a string or a list of blocks."""
    if isinstance(content, str):
        return content
    blocks = content if isinstance(content, list) else []
    texts = [
        block if isinstance(block, str) else block.get("text") for block in blocks if isinstance(block, str | dict)
    ]
    return "\n".join(text for text in texts if isinstance(text, str))


def integer(value: object) -> int | None:
    """A count as JSON gives it; None for anything else."""
    return value if isinstance(value, int) and not isinstance(value, bool) else None


def mapping(value: object) -> dict[str, Any]:
    """`value` where it is an object, else an empty one."""
    return value if isinstance(value, dict) else {}


def listed(value: object) -> list[Any]:
    """`value` where it is a list, else an empty one."""
    return value if isinstance(value, list) else []


def objects(value: object) -> list[dict[str, Any]]:
    """The objects of a list; none where it is no list."""
    return [item for item in listed(value) if isinstance(item, dict)]


def string(value: object) -> str:
    """`value` where it is a string, else an empty one."""
    return value if isinstance(value, str) else ""


def kind_of(*names: object) -> str:
    """The name under which a record is counted as skipped: `response_item:reasoning`."""
    return ":".join(name for name in names if isinstance(name, str) and name) or "unnamed"

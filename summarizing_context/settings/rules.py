"""What each kind of setting accepts, and how a refusal reads.

Rules over single values; the settings themselves, and what must hold between them, are in `settings`.
"""

from __future__ import annotations

import difflib
import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

from summarizing_context.errors import SettingsError
from summarizing_context.settings.addresses import StoreAddress, is_address, shown_store, unknown_scheme, why_refused
from summarizing_context.settings.ledger_rules import LedgerRule, check_rules

SHOWN_CHARACTERS = 60  # of a refused value

_YES = ("1", "true", "yes", "on")

_NO = ("0", "false", "no", "off")


class Refused(Exception):
    """A value that its rule does not accept. Never leaves this package: `settings` turns it into a problem.

    `shown` stands for a value that a message may not show.
    """

    def __init__(self, reason: str = "", *, shown: str | None = None) -> None:
        super().__init__(reason)
        self.shown = shown


class Rule(Protocol):
    """Accepts the values of one setting."""

    @property
    def allowed(self) -> str:
        """The allowed values, in words."""

    def accept(self, value: Any) -> Any:
        """The value as it is to be kept, or `Refused`."""

    def parse(self, text: str) -> Any:
        """What `text` (from the environment) says, still to be accepted, or `Refused`."""


@dataclass(frozen=True, slots=True)
class Whole:
    """An int within bounds, both included. A bool is not an int."""

    low: int
    high: int

    @property
    def allowed(self) -> str:
        return f"a whole number from {self.low:,} to {self.high:,}"

    def accept(self, value: Any) -> int:
        if isinstance(value, bool) or not isinstance(value, int) or not self.low <= value <= self.high:
            raise Refused
        return value

    def parse(self, text: str) -> int:
        try:
            return int(text)
        except ValueError:
            raise Refused from None


@dataclass(frozen=True, slots=True)
class ToolTable:
    """Ledger rules for tools of a host's own; in the environment as JSON."""

    @property
    def allowed(self) -> str:
        return "a list of {tool, kind, key, operation}, each a text, of the kind path, command, url, identifier or plan"

    def accept(self, value: Any) -> tuple[LedgerRule, ...]:
        try:
            return check_rules(value)
        except SettingsError:
            raise Refused from None

    def parse(self, text: str) -> Any:
        try:
            return json.loads(text)
        except ValueError:
            raise Refused from None


@dataclass(frozen=True, slots=True)
class Number:
    """A finite float within bounds; an int is accepted and kept as a float."""

    low: float
    high: float
    open_ends: bool = False  # the bounds themselves are excluded

    @property
    def allowed(self) -> str:
        if self.open_ends:
            return f"a number above {self.low:,g} and below {self.high:,g}"
        return f"a number from {self.low:,g} to {self.high:,g}"

    def accept(self, value: Any) -> float:
        if isinstance(value, bool) or not isinstance(value, int | float) or not self._holds(value):
            raise Refused
        return float(value)

    def _holds(self, value: float) -> bool:  # NaN compares false, so it is refused
        return self.low < value < self.high if self.open_ends else self.low <= value <= self.high

    def parse(self, text: str) -> float:
        try:
            return float(text)
        except ValueError:
            raise Refused from None


@dataclass(frozen=True, slots=True)
class Flag:
    """True or False."""

    allowed: str = "true or false"

    def accept(self, value: Any) -> bool:
        if not isinstance(value, bool):
            raise Refused
        return value

    def parse(self, text: str) -> bool:
        word = text.strip().lower()
        if word not in (*_YES, *_NO):
            raise Refused
        return word in _YES


@dataclass(frozen=True, slots=True)
class Choice:
    """One of a few words; `aliases` are other names for them."""

    words: Sequence[str]
    aliases: Mapping[str, str] = field(default_factory=dict)

    @property
    def allowed(self) -> str:
        return "one of " + ", ".join(self.words)

    def accept(self, value: Any) -> str:
        if not isinstance(value, str):
            raise Refused
        word = self.aliases.get(value, value)
        if word not in self.words:
            near = difflib.get_close_matches(value[:100].lower(), [*self.words, *self.aliases], n=1, cutoff=0.5)
            raise Refused(f"did you mean {near[0]}?" if near else "")
        return word

    def parse(self, text: str) -> str:
        return text.strip()


@dataclass(frozen=True, slots=True)
class Text:
    """A string that matches a pattern as a whole."""

    pattern: str
    allowed: str

    def accept(self, value: Any) -> str:
        if not isinstance(value, str) or not re.fullmatch(self.pattern, value, re.DOTALL):
            raise Refused
        return value

    def parse(self, text: str) -> str:
        return text


@dataclass(frozen=True, slots=True)
class Place:
    """A file's path, `:memory:`, or the address of a server."""

    allowed: str = 'a path to a file, ":memory:", or postgresql://user@host/database'

    def accept(self, value: Any) -> str | Path:
        if not isinstance(value, str | Path) or not str(value).strip() or "\0" in str(value):
            raise Refused
        if (scheme := unknown_scheme(value)) is not None:
            raise Refused(why_refused(scheme), shown=shown_store(value)[:SHOWN_CHARACTERS])
        if is_address(value):
            return StoreAddress(str(value))
        if not str(value).startswith("~"):
            return value
        try:
            return type(value)(Path(value).expanduser())
        except RuntimeError:
            raise Refused("no home folder of that user is known") from None

    def parse(self, text: str) -> str:
        return text


@dataclass(frozen=True, slots=True)
class Maybe:
    """Another rule's values, or None."""

    rule: Rule

    @property
    def allowed(self) -> str:
        return f"{self.rule.allowed}, or none"

    def accept(self, value: Any) -> Any:
        is_none = value is None or (value == "none" and isinstance(self.rule, Whole | Number))  # TOML has no null
        return None if is_none else self.rule.accept(value)

    def parse(self, text: str) -> Any:
        return None if text.strip().lower() in ("", "none") else self.rule.parse(text)


def share() -> Number:
    """A share of room."""
    return Number(0, 1, open_ends=True)


def shown_name(name: str) -> str:
    """A name that somebody gave, as a message shows it: printable, and without its end where it is longer than any
    setting's."""
    cut = name if len(name) <= SHOWN_CHARACTERS else f"{name[:SHOWN_CHARACTERS]}…"
    return cut if cut.isprintable() else "".join(one if one.isprintable() else "\ufffd" for one in cut)


def shown(value: Any) -> str:
    """A refused value for a message: short, without a password, and never an error of its own."""
    try:
        text = repr(value)
    except Exception:  # a huge int, or an object whose repr fails
        return f"<{type(value).__name__}>"
    if "://" in text and any(mark in text for mark in "@?"):  # an address that may carry a password or a key
        return f"<{type(value).__name__}, not shown>"
    return text if len(text) <= SHOWN_CHARACTERS else f"{text[:SHOWN_CHARACTERS]}… ({type(value).__name__})"

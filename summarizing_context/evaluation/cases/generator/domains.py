"""What a domain is made of: tools, things that may be asked for, facts that may be planted, pools of names.

Read from the TOML files beside this one, which are our own text. How it becomes a session is `sessions`' business.
"""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import Literal

import msgspec

from summarizing_context.errors import SettingsError
from summarizing_context.evaluation.cases.model import Kind

_FOLDER = "summarizing_context.evaluation.cases.generator"


@dataclass(frozen=True, slots=True, kw_only=True)
class Tool:
    """A tool that the agent of this domain has."""

    name: str
    args: Mapping[str, str]  # templates; `{ref}` is an id seen before, `{file}` a file worked on before
    row: tuple[str, ...]  # templates of the lines that it answers
    rows: tuple[int, int] = (6, 30)
    head: str = ""
    say: str = ""  # what the agent says when it calls it
    does: Literal["look", "create", "edit", "delete", "act"] = "look"


@dataclass(frozen=True, slots=True, kw_only=True)
class Fact:
    """Something that is planted in a session and asked for later."""

    kind: Kind
    ask: str
    says: str = ""  # by whom: `who`
    then: str = ""  # supersession: what replaces it later
    steps: tuple[str, ...] = ()  # ordering: what happens one after the other
    forbid: tuple[str, ...] = ()  # abstention: what is never said
    who: Literal["user", "assistant", "tool"] = "user"


@dataclass(frozen=True, slots=True, kw_only=True)
class Domain:
    """Everything that a session of one domain is written from."""

    name: str
    system: str
    opening: tuple[str, ...]
    asks: tuple[str, ...]
    closings: tuple[str, ...]
    tools: tuple[Tool, ...]
    facts: tuple[Fact, ...]
    pools: Mapping[str, tuple[str, ...]]


def domain_names() -> list[str]:
    """The names of all domains, sorted."""
    return sorted(file.name.removesuffix(".toml") for file in (files(_FOLDER) / "domains").iterdir())


@cache
def load_domain(name: str) -> Domain:
    """One domain; `SettingsError` if there is none of this name."""
    if name not in domain_names():
        raise SettingsError(f"there is no domain {name!r}; the domains are {', '.join(domain_names())}")
    found = tomllib.loads((files(_FOLDER) / "domains" / f"{name}.toml").read_text(encoding="utf8"))
    return msgspec.convert({**found, "name": name, "tools": found["tool"], "facts": found["fact"]}, Domain)

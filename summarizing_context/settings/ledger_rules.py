"""The table of what tools do: which argument of a call names a path, a command, a URL or an identifier, and what the
call does to it.

Pure. Rules are tried from the top; a host's own come first. Applying them to calls is `ledger`' work.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, fields
from functools import lru_cache
from typing import Literal, get_args

from summarizing_context.errors import SettingsError, briefly

RuleKind = Literal["path", "command", "url", "identifier", "plan"]

PATH_KEYS = (
    *("file_path", "path", "filename", "file", "filepath", "target_file", "notebook_path", "file_name"),
    *("filePath", "targetFile", "fileName", "paths", "files", "file_paths", "uri"),
)

COMMAND_KEYS = ("command", "cmd", "script")

_PATHS = "|".join(PATH_KEYS)

_FROM = "source|source_path|src|old_path|from|from_path|path|file_path"

_TO = "destination|destination_path|dest|dst|new_path|to|to_path|target"

TOOL, ANY = "{tool}", "*"


@dataclass(frozen=True, slots=True)
class LedgerRule:
    """What one argument of a tool's call stands for.

    `tool` is one word of its name, or several joined by `_`, whatever their case (`str_replace` is in
    `StrReplaceTool`); alternatives are parted by `|`, and `*` is any tool. Where a call has an argument `command` of
    one word, that word is looked at before the name. `key` names the argument, again with alternatives.
    `operation` is what the call does, in the past tense: `read`, `edited`, `deployed`; `{tool}` is its name. With the
    key `*` an identifier is any short argument of one word with a digit in it. The kind `plan` names the argument that
    holds a plan or to-do list, as a list of items or as a text.
    """

    tool: str
    kind: RuleKind
    key: str
    operation: str

    def __post_init__(self) -> None:
        texts = (self.tool, self.key, self.operation)
        if not all(isinstance(text, str) and text.strip() for text in texts):
            raise SettingsError(
                f"a ledger rule needs a tool, a key and an operation, each a text; it has {briefly(texts, 120)}"
            )
        if self.kind not in get_args(RuleKind):
            kinds = ", ".join(get_args(RuleKind))
            raise SettingsError(f"a ledger rule is about one of {kinds}; this one says kind={briefly(self.kind)}")


_PATH_OPERATIONS = {  # of tools, the first that fits
    "undo": "undid an edit of",
    "edit|multiedit|str_replace|replace|insert|patch": "edited",
    "update": "updated",
    "modify|change": "modified",
    "apply": "applied",
    "extend|append": "extended",
    "write": "wrote",
    "save": "saved",
    "create|add|mkdir": "created",
    "delete": "deleted",
    "remove|rm|unlink": "removed",
    "drop": "dropped",
    "close": "closed",
    "archive": "archived",
}

RULES: tuple[LedgerRule, ...] = (
    *(LedgerRule(tool, "path", _PATHS, operation) for tool, operation in _PATH_OPERATIONS.items()),
    LedgerRule("move|rename", "path", _TO, "created"),
    LedgerRule("move|rename", "path", _FROM, "moved"),
    LedgerRule("copy", "path", _TO, "created"),
    LedgerRule("copy", "path", _FROM, "read"),
    LedgerRule("read|view|open|cat|get|show|fetch", "path", _PATHS, "read"),
    LedgerRule("grep|search|glob|find", "path", _PATHS, "searched"),
    LedgerRule("ls|list", "path", _PATHS, "listed"),
    LedgerRule("*", "path", _PATHS, "used"),
    LedgerRule("*", "command", "|".join(COMMAND_KEYS), "ran"),
    LedgerRule("*", "url", "url|urls|href|link", "fetched"),
    LedgerRule("create|add|book|update|edit|modify|change|set|apply|assign|send", "identifier", "*", TOOL),
    LedgerRule("delete|remove|cancel|close|archive|merge|refund|restart|deploy", "identifier", "*", TOOL),
    LedgerRule("*", "identifier", "*", "used"),
)

PLAN_RULES: tuple[LedgerRule, ...] = (
    LedgerRule("todo|todo_write|todowrite|todo_read|todoread", "plan", "todos", "planned"),
    LedgerRule("update_plan", "plan", "plan", "planned"),
    LedgerRule("task_create", "plan", "subject", "planned"),
    LedgerRule("task_update", "plan", "taskId", "planned"),
)


class LedgerRules:
    """The rules that apply to a tool's name; looked up once for each name, as a model may make up any."""

    def __init__(self, own: Sequence[LedgerRule] = ()) -> None:
        self._rules = [(rule, _tools_of(rule)) for rule in (*own, *RULES)]
        self._own = len(own)
        self.rules_for = lru_cache(4_096)(self._rules_for)

    def _rules_for(self, tool: str, word: str) -> tuple[LedgerRule, ...]:
        """Return rules in the order in which they apply to a call of `tool`; `word` is its one-word `command`.

        A host's own rules come first, then those for the first name, for the second, for any.
        """
        names = [_words(name) for name in (word, tool) if name]
        ranked = []
        for place, (_, tools) in enumerate(self._rules):
            named = [at for at, name in enumerate(names) if _is_one_of(tools, name)]
            if named or () in tools:
                ranked.append((place >= self._own, min(named, default=len(names)), place))
        return tuple(self._rules[place][0] for *_, place in sorted(ranked))


class PlanTools:
    """Which tools write or tell a plan, and the arguments that hold it; looked up once for each name."""

    def __init__(self, own: Sequence[LedgerRule] = ()) -> None:
        self._rules = [(rule.key.split("|"), _tools_of(rule)) for rule in (*own, *PLAN_RULES) if rule.kind == "plan"]
        self._words = [[word.encode() for word in tool] for tool in {one for _, tools in self._rules for one in tools}]
        self.keys_of = lru_cache(4_096)(self._keys_of)

    def may_stand_in(self, data: bytes) -> bool:
        """Return whether the name of such a tool may stand in the bytes of a message: quick, and generous."""
        holds = data.lower().__contains__
        return any(all(map(holds, words)) for words in self._words)

    def _keys_of(self, tool: str) -> tuple[str, ...]:
        """Return the arguments of this tool that may hold a plan, the best first; none for one that makes no plans."""
        fitting = (keys for keys, tools in self._rules if () in tools or _is_one_of(tools, _words(tool)))
        return tuple(dict.fromkeys(key for keys in fitting for key in keys))


def _words(name: str) -> tuple[str, ...]:
    return tuple(word.lower() for word in re.findall(r"[A-Z]?[a-z]+|[A-Z]+(?![a-z])|\d+", name[:200]))


def _tools_of(rule: LedgerRule) -> list[tuple[str, ...]]:
    """Return the words of each name that a rule is for; none of `*`."""
    return [_words(name) for name in rule.tool.split("|")]


def _is_one_of(tools: Sequence[tuple[str, ...]], name: tuple[str, ...]) -> bool:
    """Return whether a name holds the words of one of the tools one after another."""
    return any(words and any(name[at : at + len(words)] == words for at in range(len(name))) for words in tools)


def check_rules(rules: object) -> tuple[LedgerRule, ...]:
    """Return a host's rules, each a `LedgerRule` or a mapping of its four fields. Raise `SettingsError`."""
    if isinstance(rules, str | Mapping) or not isinstance(rules, Iterable):
        raise SettingsError(f"ledger_rules is {type(rules).__name__}; it is a sequence of LedgerRule")
    names = [field.name for field in fields(LedgerRule)]
    found = [
        LedgerRule(**rule) if isinstance(rule, Mapping) and sorted(map(str, rule)) == sorted(names) else rule
        for rule in rules
    ]
    for rule in found:
        if not isinstance(rule, LedgerRule):
            what = type(rule).__name__
            raise SettingsError(f"ledger_rules holds a {what}; each is a LedgerRule of {', '.join(names)}")
    return tuple(found)

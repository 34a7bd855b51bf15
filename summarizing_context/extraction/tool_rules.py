"""The table of what tools do: which argument of a call names a path, a command, a URL or an identifier, and what the
call does to it.

Pure. Rules are tried from the top; a host's own come first. `log.ledger` applies them to calls.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import lru_cache

from summarizing_context.settings.ledger_rules import LedgerRule

COMMAND_KEYS = ("command", "cmd", "script", "commands")
_PATHS = (
    "file_path|path|filename|file|filepath|target_file|notebook_path|file_name|"
    "filePath|targetFile|fileName|paths|files|file_paths|uri"
)
_FROM = "source|source_path|src|old_path|from|from_path|path|file_path"
_TO = "destination|destination_path|dest|dst|new_path|to|to_path|target"

TOOL, ANY = "{tool}", "*"

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
    LedgerRule("todo|todo_write|todowrite|todo_read|todoread", "plan", "todos", "planned"),
    LedgerRule("update_plan", "plan", "plan", "planned"),
    LedgerRule("task_create", "plan", "subject", "planned"),
    LedgerRule("task_update", "plan", "taskId", "planned"),
)


class ToolRules:
    """The rules by which the calls of a session are read, a host's own first; looked up once for each tool's name."""

    def __init__(self, own: Sequence[LedgerRule] = ()) -> None:
        rules = (*own, *RULES)
        self._own = len(own)
        self._rules = [(rule, [_words(name) for name in rule.tool.split("|")]) for rule in rules]
        self._plan_words = {
            tuple(word.encode() for word in tool)
            for rule, tools in self._rules
            if rule.kind == "plan"
            for tool in tools
        }
        self.rules_for = lru_cache(4_096)(self._rules_for)  # a model may make up any name

    def _rules_for(self, tool: str, word: str = "") -> list[LedgerRule]:
        """Return rules in the order in which they apply to a call of `tool`; `word` is its one-word `command`.

        A host's own rules come first, then those for the first name, for the second, for any.
        """
        names = [_words(name) for name in (word, tool) if name]
        ranked = []
        for place, (_, tools) in enumerate(self._rules):
            fitting = (at for at, name in enumerate(names) if any(words and _holds(name, words) for words in tools))
            at = next(fitting, len(names) if () in tools else None)
            if at is not None:
                ranked.append((place >= self._own, at, place))
        return [self._rules[place][0] for *_, place in sorted(ranked)]

    def plan_keys(self, tool: str) -> tuple[str, ...]:
        """Return the arguments of this tool that may hold a plan, the best first; none for one that makes no plans."""
        rules = (rule for rule in self.rules_for(tool) if rule.kind == "plan")
        return tuple(dict.fromkeys(key for rule in rules for key in rule.key.split("|")))

    def may_plan(self, data: bytes) -> bool:
        """Return whether the name of a tool that plans may stand in the bytes of a message: quick, and generous."""
        lower = data.lower()
        return any(
            (not words or words[0] in lower) and all(map(lower.__contains__, words)) for words in self._plan_words
        )


def _words(name: str) -> tuple[str, ...]:
    return tuple(word.lower() for word in re.findall(r"[A-Z]?[a-z]+|[A-Z]+(?![a-z])|\d+", name[:200]))


def _holds(name: tuple[str, ...], words: tuple[str, ...]) -> bool:
    return any(name[at : at + len(words)] == words for at in range(len(name)))

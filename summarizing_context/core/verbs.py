"""What a call does, by its tool's name or its command: changes something, or only looks.

Pure. Which paths a command touches is told in `shell`.
"""

from __future__ import annotations

import re
from functools import lru_cache

_NAME_WORD = re.compile(r"[A-Z]?[a-z]+|[A-Z]+(?![a-z])")
_VERBS = {
    **dict.fromkeys(("edit", "multiedit", "replace", "insert", "patch", "str"), "edited"),
    "update": "updated",
    "modify": "modified",
    "write": "wrote",
    "create": "created",
    "delete": "deleted",
    "drop": "dropped",
    "close": "closed",
    "archive": "archived",
    "remove": "removed",
    "move": "moved",
    "rename": "renamed",
    "save": "saved",
    "undo": "undid",
}
_LOOKING = frozenset(
    (
        *("read", "view", "open", "cat", "get", "list", "ls", "grep", "glob", "search", "find", "fetch", "lookup"),
        *("query", "think", "calculate", "check", "show", "describe", "inspect", "look", "wait", "poll", "screenshot"),
    )
)
CHANGES = re.compile(
    r"\b(?:mv|cp|rm|mkdir|touch|chmod|ln|tee|install|uninstall|upgrade|deploy|docker|kubectl|terraform|sed -i|curl -X|"
    r"kill|systemctl|apply_patch|migrate)\b|[^-=2&|<>]> ?[\w./~$]"
)


def looks_only(tool: str) -> bool:
    """Whether a tool's name says that it only looks at something."""
    return any(word in _LOOKING for word in _name_words(tool)[:2]) and not verb_of(tool)


def verb_of(name: str) -> str:
    """What a tool of this name has done to a file, in the past tense; "" if nothing."""
    return next((_VERBS[word] for word in _name_words(name) if word in _VERBS), "")


@lru_cache(maxsize=512)
def _name_words(name: str) -> list[str]:
    return [word.lower() for word in _NAME_WORD.findall(name)]

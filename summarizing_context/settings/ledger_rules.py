"""A user's own rule of what a tool does, for the ledger and the plan."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, get_args

from summarizing_context.errors import SettingsError, briefly

RuleKind = Literal["path", "command", "url", "identifier", "plan"]


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

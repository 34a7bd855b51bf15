"""Generated sessions: requests, calls with long results, closing words, and planted facts.

The same domain, seed and length give the same session. `facts` decides what is planted when.
"""

from __future__ import annotations

import json
import random
from dataclasses import dataclass, field
from typing import Any

from summarizing_context.evaluation.cases.facts import (
    Domain,
    Planter,
    Planting,
    Slots,
    Tool,
    load_domain,
    probes_of,
)
from summarizing_context.evaluation.cases.model import Case, Message, cuts_near, message_tokens

_RECENT = 6  # ids that an agent has just seen


@dataclass(frozen=True, slots=True, kw_only=True)
class Recipe:
    """What session to generate."""

    domain: str
    seed: int
    tokens: int  # about; at least one turn is written
    budget: int  # tokens of a view
    cuts: tuple[float, ...] = (0.5, 0.75, 0.95)  # shares of the session


def generate_case(recipe: Recipe) -> Case:
    """The session with its cuts and its probes."""
    domain = load_domain(recipe.domain)
    writer = _Writer(domain, recipe)
    writer.write()
    case = Case(
        id=f"{recipe.domain}-{recipe.seed}-{recipe.budget}",
        group=f"{recipe.domain}-{recipe.seed}",
        messages=tuple(writer.messages),
        cuts=cuts_near(writer.messages, recipe.budget, recipe.cuts),
        title=f"{recipe.domain}, seed {recipe.seed}, {recipe.budget:,} tokens",
        domain=recipe.domain,
        source="generated",
        licence="MIT",
    )
    return probes_of(case, writer.planter.planted)


@dataclass(slots=True)
class _Memory:
    """What the agent has come across and may use again."""

    listed: list[str] = field(default_factory=list)  # ids that stood in results
    handled: list[str] = field(default_factory=list)  # ids that were used in a call
    files: dict[str, str] = field(default_factory=dict)  # path: what was last done to it


class _Writer:
    """Writes one session."""

    def __init__(self, domain: Domain, recipe: Recipe) -> None:
        self.messages: list[Message] = []
        self._domain, self._recipe = domain, recipe
        self._rng = random.Random(f"{domain.name}/{recipe.seed}/{recipe.tokens}")
        self._slots = Slots(self._rng, domain.pools)
        self.planter = Planter(domain, self._slots, random.Random(f"facts/{domain.name}/{recipe.seed}"))
        self._memory = _Memory()
        self._calls = self._tokens = 0

    def write(self) -> None:
        self._add({"role": "system", "content": self._domain.system})
        turn = 0
        while self._tokens < self._recipe.tokens:
            self._turn(self.planter.plan(turn, self._tokens / self._recipe.tokens))
            turn += 1

    def _turn(self, planting: Planting) -> None:
        ask = self._slots.fill(self._rng.choice(self._domain.opening if len(self.messages) == 1 else self._domain.asks))
        facts = [fact.text for fact in planting.by_user]
        sentences = [*facts, ask.text] if facts and self._rng.random() < 0.3 else [ask.text, *facts]
        self._add({"role": "user", "content": " ".join(sentences)})
        planting.stand_at("user", len(self.messages) - 1)
        hidden = list(planting.by_tool)
        for _ in range(self._rng.choice((1, 1, 2, 2, 3))):
            self._step(planting, hidden)
        while hidden:
            self._step(planting, hidden)
        closing = self._slots.fill(self._rng.choice(self._domain.closings), self._last_things())
        self._add({"role": "assistant", "content": " ".join([closing.text, *(f.text for f in planting.by_assistant)])})
        planting.stand_at("assistant", len(self.messages) - 1)

    def _step(self, planting: Planting, hidden: list[Any]) -> None:
        """One assistant message with calls, and their results."""
        tools = [self._choose_tool() for _ in range(self._rng.choice((1, 1, 1, 2, 3)))]
        calls, results = [], []
        for tool in tools:
            self._calls += 1
            id, arguments = f"call_{self._calls:05}", self._arguments(tool)
            calls.append({"id": id, "type": "function", "function": _function(tool.name, arguments)})
            results.append({"role": "tool", "tool_call_id": id, "content": ""})
        say = self._slots.fill(tools[0].say or "Let me look.", self._last_things()).text
        self._add({"role": "assistant", "content": say, "tool_calls": calls})
        for tool, result in zip(tools, results, strict=True):
            fact = hidden.pop(0) if hidden and tool.does == "look" else None
            result["content"] = self._result(tool, fact)
            self._add(result)
            if fact is not None:
                planting.stand(fact, len(self.messages) - 1)

    def _choose_tool(self) -> Tool:
        usable = [
            tool
            for tool in self._domain.tools
            if ("{ref}" not in str(tool.args) or self._memory.listed)
            and (tool.does not in ("edit", "delete") or self._memory.files)
        ]
        weights = [6 if tool.does == "look" else 1 if tool.does == "delete" else 3 for tool in usable]
        return self._rng.choices(usable, weights)[0]

    def _arguments(self, tool: Tool) -> dict[str, str]:
        known = {"ref": self._ref()} if "{ref}" in str(tool.args) else {}
        if "{file}" in str(tool.args):
            known["file"] = self._file(tool)
        filled = {name: self._slots.fill(text, known).text for name, text in tool.args.items()}
        if tool.does in ("create", "edit", "delete") and "file" in known:
            self._memory.files.pop(known["file"], None)
            if tool.does != "delete":
                self._memory.files[known["file"]] = tool.does
        return filled

    def _ref(self) -> str:
        """An id seen before: just now, or handled long ago, or only listed somewhere."""
        memory, luck = self._memory, self._rng.random()
        if luck < 0.35:
            pool = memory.listed[-_RECENT:]
        elif luck < 0.75 and memory.handled:
            pool = memory.handled
        else:
            pool = memory.listed
        ref = self._rng.choice(pool)
        if ref not in memory.handled:
            memory.handled.append(ref)
        return ref

    def _file(self, tool: Tool) -> str:
        if self._memory.files and (tool.does in ("edit", "delete") or self._rng.random() < 0.6):
            return self._rng.choice(list(self._memory.files))
        path = self._slots.fill(self._rng.choice(self._domain.pools["new_file"])).text
        if tool.does == "look":
            self._memory.files.setdefault(path, "look")
        return path

    def _result(self, tool: Tool, fact: Any) -> str:
        lines = [self._slots.fill(tool.head).text] if tool.head else []
        for _ in range(self._rng.randrange(*tool.rows)):
            row = self._slots.fill(self._rng.choice(tool.row))
            lines.append(row.text)
            self._memory.listed.extend(row.ids)
        if fact is not None:
            at = round(fact.depth * len(lines))
            lines.insert(at, fact.text)
        return "\n".join(lines)

    def _last_things(self) -> dict[str, str]:
        """What closing words may name: the id and the file handled last."""
        memory = self._memory
        ref = memory.handled[-1] if memory.handled else "it"
        return {"ref": ref, "file": next(reversed(memory.files)) if memory.files else "the list"}

    def _add(self, message: Message) -> None:
        self.messages.append(message)
        self._tokens += message_tokens(message)


def _function(name: str, arguments: dict[str, str]) -> dict[str, str]:
    return {"name": name, "arguments": json.dumps(arguments, ensure_ascii=False)}

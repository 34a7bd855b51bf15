"""Sessions by seed that mix every shape of today's protocols: what a client asks, and what its provider answers.

A `Session` plays both sides. The client adds its rows to `history` and sends `body()`; the provider sees what arrives
of it, and `answer(arrived)` says what the model replies, which the client adds and goes on from, up to its next
request. Thinking is signed for what has arrived, as providers do. The shapes are those of `shapes.toml`. Nothing of the
package is imported.
"""

import base64
import json
import random
from collections.abc import Collection, Generator, Mapping, Sequence
from typing import Any

from evals.clients.rules import SHAPES, Given, Seal

Row = dict[str, Any]

_WORDS = (
    *("parser", "tokens", "nodes", "tests", "blocks", "files", "lexer", "grammar", "output", "cache", "ledger"),
    *("route", "reads", "writes", "checks", "merges", "keeps", "drops", "orders", "the", "a", "each", "no", "one"),
    "other",
)

_TRAPS = (  # names of fields that mean something in blocks that are known
    *("text", "content", "id", "name", "input", "source", "thinking", "signature", "tool_use_id", "output", "summary"),
    *("arguments", "role", "data", "title", "parts", "result", "status", "metadata", "functionCall", "toolUse"),
)

_TURNS = (1, 2, 4, 12)  # replies of a turn that call tools

_HUGE = 30.0  # steps in one text: more than a view has room for

_FIELDS = {"responses": "input", "gemini": "contents"}  # of a request, with the history; else `messages`

_BINDING, _BY_ROW = "thinking-binding-controls-2026-08-01", "per-turn-control-2026-07-01"


class Session:
    """One session of a dialect. Its texts are so long that `steps` requests say four times a budget's tokens.

    `without` names shapes that the door has no form for.
    """

    def __init__(self, dialect: str, seed: int, *, steps: int, budget: int, without: Collection[str] = ()) -> None:
        self.dialect, self.name, self.steps, self.budget = dialect, f"{dialect}-{seed}", steps, budget
        self.random = random.Random(self.name)
        self.history: list[Row] = []
        self.given, self.seal = Given(), Seal(self.name.encode())
        self.fixed: Row = {}  # fields of a request beside its history
        self.marks = ""  # how the client marks its newest words for the cache: by how long they are to live
        self.betas: list[str] = []
        self.demands: set[str] = set()
        self.as_sent = False  # its requests have to arrive as they are
        self.number = 0  # of the reply
        self._size, self._without = 4 * budget // steps, without
        self._turns = _turns(_SIDES[dialect](self))
        next(self._turns)

    def body(self) -> Row:
        """The request that the client sends now."""
        rows = list(self.history)
        at = max((at for at, row in enumerate(rows) if row.get("role") == "user"), default=0)
        if self.marks:
            *blocks, last = rows[at]["content"]
            mark = {"type": "ephemeral", **({"ttl": "1h"} if self.marks == "1h" else {})}
            rows[at] = {"role": "user", "content": [*blocks, {**last, "cache_control": mark}]}
        return {**self.fixed, _FIELDS.get(self.dialect, "messages"): rows}

    def answer(self, arrived: Mapping[str, Any]) -> None:
        """Let the provider reply to what has arrived, and the client go on to its next request."""
        self.number += 1
        self._turns.send(arrived)

    def may(self, shape: str, share: float = 1.0) -> bool:
        """Whether a shape stands here."""
        return self.random.random() < share and shape not in self._without

    def words(self, share: float = 0.5) -> str:
        """A text of about this share of a step's tokens."""
        number = max(3, int(self._size * share * self.random.uniform(0.3, 1.7)))
        return " ".join(self.random.choices(_WORDS, k=number)) + "."

    def sealed(self, text: str, share: float = 0.2) -> str:
        """Bytes that only the provider reads, with its signature of a text."""
        data = self.random.randbytes(int(self._size * share * 3) + 9)
        return f"{self.seal.sign(text)}.{base64.b64encode(data).decode()}"

    def example(self, value: Any, id: str) -> Any:
        """An example of the table of shapes, filled in."""
        if isinstance(value, dict):
            return {name: self.example(each, id) for name, each in value.items()}
        if isinstance(value, list):
            return [self.example(each, id) for each in value]
        match str(value)[:1]:
            case "~":
                return self.words(float(value[1:]))
            case "%":
                return self.words(0.5 if self.random.random() < 0.98 else _HUGE)
            case "!":
                return self.sealed(value[1:])
            case "*":
                return base64.b64encode(self.random.randbytes(90)).decode()
            case "#":
                return id + value[1:]
        return None if value == "null" else value

    def unknown(self, share: float) -> list[Row]:
        """Perhaps a block of a type that nobody knows."""
        if not self.may("unknown", share):
            return []
        fields = odd_fields(self.random, self.words(0.1))
        if self.dialect in ("gemini", "bedrock"):
            return [{f"hologram{self.random.randrange(99)}": fields}]
        return [{**fields, "type": f"hologram_{self.random.randrange(99)}"}]


def odd_fields(chance: random.Random, words: str, depth: int = 0) -> Row:
    """Fields with any names and values."""
    made: Row = {}
    for name in chance.sample(_TRAPS, chance.randint(1, 4)):
        way = chance.randrange(6 if depth < 3 else 4)
        kind = chance.choice(["text", "tool_use", "image", "tool_result", "thinking"])
        inner = odd_fields(chance, words, depth + 1) if way > 3 else {}
        marked = f"{words} {chance.randrange(10**9)}"
        empty: Any = chance.choice([None, True, 0, -1.5, "", [], {}])
        made[name] = [marked, marked, empty, [{"type": kind, "text": marked}, 7], inner, [inner]][way]
    return made


def _turns(side: "_Side") -> Generator[None, Mapping[str, Any], None]:
    """The session, with one `yield` for each request, which is sent what has arrived."""
    chance = side.session.random
    while True:
        side.begin()
        side.ask([*side.text(0.4, "user"), *side.examples("asked"), *side.session.unknown(0.05)])
        arrived = yield
        carried: list[Row] = []  # what the reply begins with, as the one before has called for it
        goes_on = False
        for _ in range(chance.choice(_TURNS)):
            opening = side.opening(arrived, carried, goes_on)
            words = [*side.text(0.2, "assistant"), *side.examples("said"), *side.session.unknown(0.06)]
            reply, answer, carried = side.scene()
            side.reply([*opening, *words, *reply])
            goes_on = not answer
            if answer:
                side.ask(answer, alone=bool(carried))
            arrived = yield
        side.reply([*side.opening(arrived, carried, goes_on), *side.text(0.3, "assistant"), *side.examples("said")])


class _Side:
    """What a dialect does otherwise. The parts of a reply are blocks of one row, or items."""

    model, parts = "assistant", "content"

    def __init__(self, session: Session) -> None:
        self.session = session
        self.known: set[str] = set()  # tools that were loaded
        self.fix()

    def fix(self) -> None:
        """Set the fields beside the history."""

    def begin(self) -> None:
        """What stands before a question."""

    def text(self, share: float, role: str) -> list[Row]:
        return [{"text": self.session.words(share)}]

    def opening(self, arrived: Mapping[str, Any], carried: list[Row], goes_on: bool) -> list[Row]:
        """What a reply begins with."""
        return carried

    def examples(self, table: str) -> list[Row]:
        """Some of the parts of a table."""
        found: list[Row] = []
        for number, one in enumerate(SHAPES[table]):
            if one["in"] == self.session.dialect and self.session.may(one["shape"], one["share"]):
                self.known.update([one["loads"]] if "loads" in one else [])
                found += self.session.example(one["parts"], self.id(f"{table}{number}"))
        return found

    def scene(self) -> tuple[list[Row], list[Row], list[Row]]:
        """Calls, their answers, and what the next reply begins with."""
        of_ours = [one for one in SHAPES["scenes"] if one["in"] == self.session.dialect]
        may_stand = [one for one in of_ours if self.session.may(one.get("shape", ""))]
        scenes = [one for one in may_stand if one.get("needs", "") in {"", *self.known}]
        [one] = self.session.random.choices(scenes, [one.get("weight", 1) for one in scenes])
        self.known.update([one["loads"]] if "loads" in one else [])
        made = self.session.example(one, self.id("call"))
        return made["reply"], made["answer"], made.get("then", [])

    def id(self, kind: str) -> str:
        return f"{kind}_{self.session.number}"

    def reply(self, parts: list[Row]) -> None:
        self._say(self.model, parts)

    def ask(self, parts: list[Row], alone: bool = False) -> None:
        self._say("user", parts)

    def _say(self, role: str, parts: list[Row]) -> None:
        self.session.given.add(parts)
        self.session.history.append({"role": role, self.parts: parts})


class _Anthropic(_Side):
    def fix(self) -> None:
        session, chance = self.session, self.session.random
        self._turn = 0  # row with which the newest question came
        self._known_then: set[str] = set()  # tools that were loaded before it
        kinds = ["", "enabled", "adaptive"]  # models that bind it think adaptively, also where nothing is asked of them
        kinds += ["bound", "bound adaptive", "bound adaptive"] if session.may("bound") else []
        self._thinking = chance.choice(kinds) if session.may("thinking") else ""
        if session.may("thread", 0.08):
            self._thinking, session.as_sent, session.betas = "", True, ["message-threads-2026-08-12"]
        names = ("read", "grep", "ToolSearch", "map")
        tools: list[Row] = [{"name": name, "input_schema": {"type": "object"}} for name in names]
        tools[-1]["defer_loading"] = True
        model = f"claude-opus-{'5-5' if self._thinking.startswith('bound') else '4-8'}"
        session.fixed = {"model": model, "max_tokens": 900, "tools": tools, "system": session.words(0.5)}
        if session.as_sent:
            session.fixed["thread"] = {"type": "create"}
        if self._thinking not in ("", "bound"):
            budget = {"budget_tokens": 1_024} if "enabled" in self._thinking else {}
            session.fixed["thinking"] = {"type": self._thinking.removeprefix("bound "), **budget}
        if "adaptive" in self._thinking and session.may("binding", 0.3):
            asked = {"prefix_mismatch_behavior": chance.choice(["error", "drop_block"])}
            session.fixed["thinking"]["block_binding"] = asked
            session.betas.append(_BINDING)
        if session.may("system_rows", 0.6) and not session.as_sent:
            session.betas.append(_BY_ROW)
        session.marks = chance.choice(["", "5m", "1h"]) if session.may("marks") else ""
        if session.marks:
            life = {"type": "ephemeral", "ttl": chance.choice(["1h", session.marks])}
            session.fixed["system"] = [{"type": "text", "text": session.fixed["system"], "cache_control": life}]

    def begin(self) -> None:
        session = self.session
        share = 0.04 if session.history else 0.15
        if session.may("compaction", share) and not session.as_sent:
            keeps = session.random.random() < 0.6
            self._compact(session.history[self._turn :] if keeps else [], self._known_then if keeps else self.known)
        self._turn, self._known_then = len(session.history), set(self.known)

    def _compact(self, kept: Sequence[Row], known: Collection[str]) -> None:
        """What the provider has compacted stands for all but these rows, whose thinking holds behind it. They go on
        with the tools that were `known`."""
        session, addition = self.session, {"type": "tool_addition", "tool": {"type": "tool_reference", "name": "map"}}
        block: Row = {"type": "compaction", "content": session.words(0.5), "signature": session.sealed("c", 0.01)}
        block |= {"encrypted_content": session.sealed("e"), "tool_changes": [addition] if known else []}
        session.history[:] = []
        self._say("user", [block])
        for row in kept:
            blocks: list[Row] = []
            for old in row["content"]:
                if str(old.get("signature")).startswith("bound"):
                    old = {**old, "signature": session.seal.bind(old["thinking"], session.body(), blocks)}
                blocks.append(old)
            session.given.add(blocks)
            session.history.append({**row, "content": blocks})

    def text(self, share: float, role: str) -> list[Row]:
        blocks: list[Row] = [{"type": "text", "text": self.session.words(share)}]
        if role == "assistant" and self.session.may("server_tools", 0.3):
            blocks += [*self._pair("x"), {"type": "text", "text": self.session.words(share)}]
        return blocks

    def _pair(self, name: str) -> list[Row]:
        """A call that the server runs, and its result."""
        pair = self.session.random.choice([one for one in SHAPES["pairs"] if self.session.may(one.get("shape", ""))])
        self.known.update([pair["loads"]] if "loads" in pair else [])
        made = self.session.example(pair, self.id(f"srvtoolu_{name}"))
        return [made["call"], made["result"]]

    def scene(self) -> tuple[list[Row], list[Row], list[Row]]:
        if self.session.may("paused", 0.12) and not self.session.as_sent:
            call, result = self._pair("z")
            return [call], [], [result]
        return super().scene()

    def opening(self, arrived: Mapping[str, Any], carried: list[Row], goes_on: bool) -> list[Row]:
        session, chance = self.session, self.session.random
        skips = self._thinking != "enabled" and chance.random() < 0.2
        blocks: list[Row] = []
        shares = chance.choice([[0.1], [0.3], [0.3], [0.3, 0.3], [2.0]])
        for share in shares if self._thinking and not goes_on and not skips else ():
            text = session.words(share)
            is_bound = self._thinking.startswith("bound")
            signature = session.seal.bind(text, arrived, blocks) if is_bound else session.seal.sign(text)
            blocks.append({"type": "thinking", "thinking": text, "signature": signature})
            if chance.random() < 0.1:
                blocks.append({"type": "redacted_thinking", "data": session.sealed("r")})
        return [*blocks, *carried]

    def reply(self, parts: list[Row]) -> None:
        super().reply(parts)
        if self.session.as_sent:  # the thread holds what was said
            self.session.history.clear()
            self.session.fixed["thread"] = {"type": "continue", "previous_message_id": f"msg_{self.session.number}"}

    def ask(self, parts: list[Row], alone: bool = False) -> None:
        """A row of the user's, and perhaps one of the system's; the first one says what the client is told of."""
        session, chance = self.session, self.session.random
        results = [part["content"] for part in parts if isinstance(part.get("content"), list)]
        if parts[0]["type"] == "tool_result":
            for content in results:
                content += session.unknown(0.1)
                session.given.add(content)
        super().ask(parts)
        is_first = not any(row["role"] != "user" for row in session.history)
        if alone or _BY_ROW not in session.betas or chance.random() > (0.7 if is_first else 0.2):
            return
        row: Row = {"role": "system", "content": []}
        if chance.random() < 0.6:
            kind = "tool_removal" if "map" in self.known and chance.random() < 0.5 else "tool_addition"
            (self.known.add if kind == "tool_addition" else self.known.discard)("map")
            row["content"].append({"type": kind, "tool": {"type": "tool_reference", "name": "map"}})
        if not row["content"] or chance.random() < 0.3:
            row["output_config"] = {"effort": chance.choice(["low", "medium", "high", "max"])}
        if is_first or (row["content"] and chance.random() < 0.3):
            row["content"].append({"type": "text", "text": session.words(0.1)})
        if row["content"] and not is_first and chance.random() < 0.3:
            row["clear_at"] = chance.choice(["never", "next_user_message"])
        session.given.add(row["content"])
        session.history.append(row)


class _Responses(_Side):
    def fix(self) -> None:
        session = self.session
        self._reasons = session.random.random() < 0.7
        self._refers = session.may("references", 0.06)
        self._chains = not self._refers and session.may("chains", 0.06)
        session.as_sent = self._chains
        tools: list[Row] = [{"type": "function", "name": "read", "parameters": {"type": "object"}}]
        tools += [{"type": "tool_search"}, {"type": "namespace", "name": "late", "defer_loading": True, "tools": []}]
        session.fixed = {"model": "gpt-6", "instructions": session.words(0.5), "store": False, "tools": tools}

    def begin(self) -> None:
        session = self.session
        if session.may("compaction", 0.04) and session.history and not self._chains and not self._refers:
            self.known.clear()
            session.history.clear()
            made = {"type": "compaction", "id": f"cmp{session.number}", "encrypted_content": session.sealed("c", 1)}
            self._add([made])
        if session.may("state", 0.3):
            update = session.random.choice(SHAPES["updates"])
            self.known.update([update["loads"]] if "loads" in update else [])
            self._add([session.example(update["item"], "")])

    def text(self, share: float, role: str) -> list[Row]:
        if role == "user":
            return [{"type": "input_text", "text": self.session.words(share)}]
        content = [{"type": "output_text", "text": self.session.words(share), "annotations": []}]
        return [{"type": "message", "id": self.id("msg"), "role": role, "status": "completed", "content": content}]

    def opening(self, arrived: Mapping[str, Any], carried: list[Row], goes_on: bool) -> list[Row]:
        session = self.session
        id, summary = f"rs_{session.number}", [{"type": "summary_text", "text": session.words(0.1)}]
        item = {"type": "reasoning", "id": id, "summary": summary, "encrypted_content": session.sealed(id, 0.3)}
        return [*carried, item] if self._reasons else carried

    def id(self, kind: str) -> str:
        """The id of an item; where it came with reasoning, that says so."""
        return f"{kind}_{self.session.number}{'_' if self._reasons else 'x'}"

    def reply(self, parts: list[Row]) -> None:
        if self.session.random.random() < 0.3 and parts[-1]["type"].endswith("_call"):  # no words
            parts = [part for part in parts if part["type"] != "message"]
        if self._chains:
            self.session.given.add(parts)
            self.session.history.clear()
            self.session.fixed["previous_response_id"] = f"resp_{self.session.number}"
            return
        self._add(parts)
        if self._refers:
            said = [part for part in parts if part["type"] == "message"]
            names = {id(part): {"type": "item_reference", "id": part["id"]} for part in said}
            self.session.given.add(names.values())
            self.session.as_sent |= bool(names)
            self.session.history[:] = [names.get(id(item), item) for item in self.session.history]

    def ask(self, parts: list[Row], alone: bool = False) -> None:
        if "input_text" in {part["type"] for part in parts}:
            role = "developer" if self.session.may("developer", 0.05) else "user"
            parts = [{"type": "message", "role": role, "content": parts}]
        self._add(parts)

    def _add(self, items: list[Row]) -> None:
        self.session.given.add(items)
        self.session.history += items


class _Chat(_Side):
    def fix(self) -> None:
        session = self.session
        session.demands = session.random.choice([set(), {"alternating"}, {"reasoning_content"}])
        tools = [{"type": "function", "function": {"name": "read", "parameters": {"type": "object"}}}]
        session.fixed = {"model": "kimi-k3", "max_tokens": 900, "tools": tools}
        session.history.append({"role": "system", "content": session.words(0.5)})

    def text(self, share: float, role: str) -> list[Row]:
        return [{"type": "text", "text": self.session.words(share)}]

    def reply(self, parts: list[Row]) -> None:
        """The calls, or the words; some are spoken, or refuse."""
        session, chance = self.session, self.session.random
        row = next((part for part in parts if "tool_calls" in part), {"role": "assistant", "content": parts[0]["text"]})
        if "tool_calls" not in row and session.may("refusal", 0.1):
            row = {"role": "assistant", "content": None, "refusal": session.words(0.1)}
        elif "tool_calls" not in row and session.may("audio", 0.1):
            row = {"role": "assistant", "content": None, "audio": {"id": self.id("audio")}}
            session.given.add([row["audio"]])
        elif "tool_calls" in row and "reasoning_content" in session.demands:
            row["reasoning_content"] = session.words(chance.choice([0.2, 0.2, 2.0]))
        session.history.append(row)

    def ask(self, parts: list[Row], alone: bool = False) -> None:
        if parts[0].get("role") == "tool":
            self.session.history += parts
        else:
            self.session.given.add(parts)
            content = parts[0]["text"] if len(parts) == 1 else parts
            self.session.history.append({"role": "user", "content": content})


class _Gemini(_Side):
    model, parts = "model", "parts"

    def reply(self, parts: list[Row]) -> None:
        first = next((part for part in parts if "functionCall" in part), {})
        if first:
            first["thoughtSignature"] = self.session.seal.sign(json.dumps(first, sort_keys=True))
        super().reply(parts)


class _Bedrock(_Side):
    def fix(self) -> None:
        self.session.fixed = {"toolConfig": {"tools": [{"toolSpec": {"name": "read", "inputSchema": {"json": {}}}}]}}

    def opening(self, arrived: Mapping[str, Any], carried: list[Row], goes_on: bool) -> list[Row]:
        text = self.session.words(0.3)
        said = {"reasoningText": {"text": text, "signature": self.session.seal.sign(text)}}
        return [{"reasoningContent": said}] if self.session.may("thinking", 0.5) else []


_SIDES: dict[str, type[_Side]] = {
    "anthropic": _Anthropic,
    "responses": _Responses,
    "chat": _Chat,
    "gemini": _Gemini,
    "bedrock": _Bedrock,
}

"""Sessions by seed that mix every shape of today's protocols; nothing of the package is imported.

A `Session` plays both sides. The client sends `body()`; the provider sees what arrives of it, and `answer(arrived)`
says what the model replies, which the client adds and goes on from, up to its next request. Thinking is signed for what
has arrived, as providers do.
"""

import base64
import json
import random
from collections.abc import Callable, Collection, Generator, Mapping, Sequence
from typing import Any

from evals.clients.rules import SHAPES, Given, Seal
from tests.laws.builders import WORDS

Row = dict[str, Any]

_TRAPS = (  # names of fields that mean something in blocks that are known
    *("text", "content", "id", "name", "input", "source", "thinking", "signature", "tool_use_id", "output", "summary"),
    *("arguments", "role", "data", "title", "parts", "result", "status", "metadata", "functionCall", "toolUse"),
)
_TURNS = (1, 2, 4, 12)  # replies of a turn that call tools
_HUGE = 30.0  # steps in one text: more than a view has room for
BINDING, _BY_ROW = "thinking-binding-controls-2026-08-01", "per-turn-control-2026-07-01"


class Session:
    """One session. Its texts are so long that `steps` requests say four times a budget's tokens.

    `without` names shapes that the door has no form for. The parts of a reply are blocks of one row, or items.
    """

    dialect, rows = "", "messages"  # where a request has its history
    model, parts = "assistant", "content"

    def __init__(self, seed: int, *, steps: int, budget: int, without: Collection[str] = ()) -> None:
        self.name, self.steps, self.budget = f"{self.dialect}-{seed}", steps, budget
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
        self._known: set[str] = set()  # tools that were loaded
        self._fix()
        self._turns = self._play()
        next(self._turns)

    def body(self) -> Row:
        """The request that the client sends now."""
        rows = list(self.history)
        at = max((at for at, row in enumerate(rows) if row.get("role") == "user"), default=0)
        if self.marks:
            *blocks, last = rows[at]["content"]
            mark = {"type": "ephemeral", **({"ttl": "1h"} if self.marks == "1h" else {})}
            rows[at] = {"role": "user", "content": [*blocks, {**last, "cache_control": mark}]}
        return {**self.fixed, self.rows: rows}

    def answer(self, arrived: Mapping[str, Any]) -> None:
        """Let the provider reply to what has arrived, and the client go on to its next request."""
        self.number += 1
        self._turns.send(arrived)

    def words(self, share: float = 0.5) -> str:
        """A text of about this share of a step's tokens."""
        number = max(3, int(self._size * share * self.random.uniform(0.3, 1.7)))
        return " ".join(self.random.choices(WORDS, k=number)) + "."

    def _play(self) -> Generator[None, Mapping[str, Any], None]:
        """The session, with one `yield` for each request, which is sent what has arrived."""
        while True:
            self._begin()
            self._ask([*self._text(0.4, "user"), *self._examples("asked"), *self._unknown(0.05)])
            arrived = yield
            carried: list[Row] = []  # what the reply begins with, as the one before has called for it
            goes_on = False
            for _ in range(self.random.choice(_TURNS)):
                opening = self._opening(arrived, carried, goes_on)
                words = [*self._text(0.2, "assistant"), *self._examples("said"), *self._unknown(0.06)]
                reply, answer, carried = self._scene()
                self._reply([*opening, *words, *reply])
                goes_on = not answer
                if answer:
                    self._ask(answer, alone=bool(carried))
                arrived = yield
            opening = self._opening(arrived, carried, goes_on)
            self._reply([*opening, *self._text(0.3, "assistant"), *self._examples("said")])

    def _may(self, shape: str, share: float = 1.0) -> bool:
        """Whether a shape stands here."""
        return self.random.random() < share and shape not in self._without

    def _sealed(self, text: str, share: float = 0.2) -> str:
        """Bytes that only the provider reads, with its signature of a text."""
        data = self.random.randbytes(int(self._size * share * 3) + 9)
        return f"{self.seal.sign(text)}.{base64.b64encode(data).decode()}"

    def _made(self, one: Row, kind: str) -> Row:
        """A row of the table of shapes, filled in; what it loads is known from now on."""
        self._known |= {one["loads"]} if "loads" in one else set()
        made: Row = self._example(one, self._id(kind))
        return made

    def _example(self, value: Any, id: str) -> Any:
        if isinstance(value, dict):
            return {name: self._example(each, id) for name, each in value.items()}
        if isinstance(value, list):
            return [self._example(each, id) for each in value]
        ways: dict[str, Callable[[str], str]] = {
            "~": lambda share: self.words(float(share)),
            "%": lambda _: self.words(0.5 if self.random.random() < 0.98 else _HUGE),
            "!": self._sealed,
            "*": lambda _: base64.b64encode(self.random.randbytes(90)).decode(),
            "#": lambda rest: id + rest,
        }
        way = ways.get(str(value)[:1])
        return way(value[1:]) if way else None if value == "null" else value

    def _unknown(self, share: float) -> list[Row]:
        """Perhaps a block of a type that nobody knows."""
        if not self._may("unknown", share):
            return []
        fields, kind = odd_fields(self.random, self.words(0.1)), f"hologram_{self.random.randrange(99)}"
        return [{kind: fields} if self.dialect in ("gemini", "bedrock") else {**fields, "type": kind}]

    def _examples(self, table: str) -> list[Row]:
        """Some of the parts of a table."""
        found: list[Row] = []
        for number, one in enumerate(SHAPES[table]):
            if one["in"] == self.dialect and self._may(one["shape"], one["share"]):
                found += self._made(one, f"{table}{number}")["parts"]
        return found

    def _scene(self) -> tuple[list[Row], list[Row], list[Row]]:
        """Calls, their answers, and what the next reply begins with."""
        of_ours = [one for one in SHAPES["scenes"] if one["in"] == self.dialect]
        may_stand = [one for one in of_ours if self._may(one.get("shape", ""))]
        scenes = [one for one in may_stand if one.get("needs", "") in {"", *self._known}]
        [one] = self.random.choices(scenes, [one.get("weight", 1) for one in scenes])
        made = self._made(one, "call")
        return made["reply"], made["answer"], made.get("then", [])

    def _id(self, kind: str) -> str:
        return f"{kind}_{self.number}"

    # What a dialect does otherwise

    def _fix(self) -> None:
        """Set the fields beside the history."""

    def _begin(self) -> None:
        """Say what stands before a question."""

    def _text(self, share: float, role: str) -> list[Row]:
        return [{"text": self.words(share)}]

    def _opening(self, arrived: Mapping[str, Any], carried: list[Row], goes_on: bool) -> list[Row]:
        """What a reply begins with."""
        return carried

    def _reply(self, parts: list[Row]) -> None:
        self._say(self.model, parts)

    def _ask(self, parts: list[Row], alone: bool = False) -> None:
        self._say("user", parts)

    def _say(self, role: str, parts: list[Row]) -> None:
        self._add({"role": role, self.parts: parts})

    def _add(self, row: Row) -> None:
        self.given.add(row[self.parts])
        self.history.append(row)


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


class _Anthropic(Session):
    dialect = "anthropic"

    def _fix(self) -> None:
        self._turn = 0  # row with which the newest question came
        self._known_then: set[str] = set()  # tools that were loaded before it
        kinds = ["", "enabled", "adaptive"]  # models that bind it think adaptively, also where nothing is asked of them
        kinds += ["bound", "bound adaptive", "bound adaptive"] if self._may("bound") else []
        self._thinking = self.random.choice(kinds) if self._may("thinking") else ""
        if self._may("thread", 0.08):
            self._thinking, self.as_sent, self.betas = "", True, ["message-threads-2026-08-12"]
        names = ("read", "grep", "ToolSearch", "map")
        tools: list[Row] = [{"name": name, "input_schema": {"type": "object"}} for name in names]
        tools[-1]["defer_loading"] = True
        model = f"claude-opus-{'5-5' if self._thinking.startswith('bound') else '4-8'}"
        self.fixed = {"model": model, "max_tokens": 900, "tools": tools, "system": self.words(0.5)}
        if self.as_sent:
            self.fixed["thread"] = {"type": "create"}
        if self._thinking not in ("", "bound"):
            budget = {"budget_tokens": 1_024} if "enabled" in self._thinking else {}
            self.fixed["thinking"] = {"type": self._thinking.removeprefix("bound "), **budget}
        if "adaptive" in self._thinking and self._may("binding", 0.3):
            asked = {"prefix_mismatch_behavior": self.random.choice(["error", "drop_block"])}
            self.fixed["thinking"]["block_binding"] = asked
            self.betas.append(BINDING)
        if self._may("system_rows", 0.6) and not self.as_sent:
            self.betas.append(_BY_ROW)
        self.marks = self.random.choice(["", "5m", "1h"]) if self._may("marks") else ""
        if self.marks:
            life = {"type": "ephemeral", "ttl": self.random.choice(["1h", self.marks])}
            self.fixed["system"] = [{"type": "text", "text": self.fixed["system"], "cache_control": life}]

    def _begin(self) -> None:
        share = 0.04 if self.history else 0.15
        if self._may("compaction", share) and not self.as_sent:
            keeps = self.random.random() < 0.6
            self._compact(self.history[self._turn :] if keeps else [], self._known_then if keeps else self._known)
        self._turn, self._known_then = len(self.history), set(self._known)

    def _compact(self, kept: Sequence[Row], known: Collection[str]) -> None:
        """What the provider has compacted stands for all but these rows, whose thinking holds behind it. They go on
        with the tools that were `known`."""
        addition = {"type": "tool_addition", "tool": {"type": "tool_reference", "name": "map"}}
        block: Row = {"type": "compaction", "content": self.words(0.5), "signature": self._sealed("c", 0.01)}
        block |= {"encrypted_content": self._sealed("e"), "tool_changes": [addition] if known else []}
        self.history[:] = []
        self._say("user", [block])
        for row in kept:
            blocks: list[Row] = []
            for old in row["content"]:
                is_bound = str(old.get("signature")).startswith("bound")
                signed = {"signature": self.seal.bind(old["thinking"], self.body(), blocks)} if is_bound else {}
                blocks.append({**old, **signed})
            self._add({**row, "content": blocks})

    def _text(self, share: float, role: str) -> list[Row]:
        text: Row = {"type": "text", "text": self.words(share)}
        if role == "assistant" and self._may("server_tools", 0.3):
            return [text, *self._pair("x"), {"type": "text", "text": self.words(share)}]
        return [text]

    def _pair(self, name: str) -> list[Row]:
        """A call that the server runs, and its result."""
        pair = self.random.choice([one for one in SHAPES["pairs"] if self._may(one.get("shape", ""))])
        made = self._made(pair, f"srvtoolu_{name}")
        return [made["call"], made["result"]]

    def _scene(self) -> tuple[list[Row], list[Row], list[Row]]:
        if self._may("paused", 0.12) and not self.as_sent:
            call, *results = self._pair("z")
            return [call], [], results
        return super()._scene()

    def _opening(self, arrived: Mapping[str, Any], carried: list[Row], goes_on: bool) -> list[Row]:
        skips = self._thinking != "enabled" and self.random.random() < 0.2
        blocks: list[Row] = []
        shares = self.random.choice([[0.1], [0.3], [0.3], [0.3, 0.3], [2.0]])
        for share in shares if self._thinking and not goes_on and not skips else ():
            text = self.words(share)
            is_bound = self._thinking.startswith("bound")
            signature = self.seal.bind(text, arrived, blocks) if is_bound else self.seal.sign(text)
            blocks.append({"type": "thinking", "thinking": text, "signature": signature})
            if self.random.random() < 0.1:
                blocks.append({"type": "redacted_thinking", "data": self._sealed("r")})
        return [*blocks, *carried]

    def _reply(self, parts: list[Row]) -> None:
        super()._reply(parts)
        if self.as_sent:  # the thread holds what was said
            self.history.clear()
            self.fixed["thread"] = {"type": "continue", "previous_message_id": f"msg_{self.number}"}

    def _ask(self, parts: list[Row], alone: bool = False) -> None:
        """A row of the user's, and perhaps one of the system's; the first one says what the client is told of."""
        results = [part["content"] for part in parts if isinstance(part.get("content"), list)]
        if parts[0]["type"] == "tool_result":
            for content in results:
                content += self._unknown(0.1)
                self.given.add(content)
        super()._ask(parts)
        is_first = not any(row["role"] != "user" for row in self.history)
        if alone or _BY_ROW not in self.betas or self.random.random() > (0.7 if is_first else 0.2):
            return
        row: Row = {"role": "system", "content": []}
        if self.random.random() < 0.6:
            kind = "tool_removal" if "map" in self._known and self.random.random() < 0.5 else "tool_addition"
            (self._known.add if kind == "tool_addition" else self._known.discard)("map")
            row["content"].append({"type": kind, "tool": {"type": "tool_reference", "name": "map"}})
        if not row["content"] or self.random.random() < 0.3:
            row["output_config"] = {"effort": self.random.choice(["low", "medium", "high", "max"])}
        if is_first or (row["content"] and self.random.random() < 0.3):
            row["content"].append({"type": "text", "text": self.words(0.1)})
        if row["content"] and not is_first and self.random.random() < 0.3:
            row["clear_at"] = self.random.choice(["never", "next_user_message"])
        self._add(row)


class _Responses(Session):
    dialect, rows = "responses", "input"

    def _fix(self) -> None:
        self._reasons = self.random.random() < 0.7
        self._refers = self._may("references", 0.06)
        self._chains = not self._refers and self._may("chains", 0.06)
        self.as_sent = self._chains
        tools: list[Row] = [{"type": "function", "name": "read", "parameters": {"type": "object"}}]
        tools += [{"type": "tool_search"}, {"type": "namespace", "name": "late", "defer_loading": True, "tools": []}]
        self.fixed = {"model": "gpt-6", "instructions": self.words(0.5), "store": False, "tools": tools}

    def _begin(self) -> None:
        if self._may("compaction", 0.04) and self.history and not self._chains and not self._refers:
            self._known.clear()
            self.history.clear()
            self._say(
                "", [{"type": "compaction", "id": f"cmp{self.number}", "encrypted_content": self._sealed("c", 1)}]
            )
        if self._may("state", 0.3):
            self._say("", [self._made(self.random.choice(SHAPES["updates"]), "")["item"]])

    def _text(self, share: float, role: str) -> list[Row]:
        if role == "user":
            return [{"type": "input_text", "text": self.words(share)}]
        content = [{"type": "output_text", "text": self.words(share), "annotations": []}]
        return [{"type": "message", "id": self._id("msg"), "role": role, "status": "completed", "content": content}]

    def _opening(self, arrived: Mapping[str, Any], carried: list[Row], goes_on: bool) -> list[Row]:
        id, summary = f"rs_{self.number}", [{"type": "summary_text", "text": self.words(0.1)}]
        item = {"type": "reasoning", "id": id, "summary": summary, "encrypted_content": self._sealed(id, 0.3)}
        return [*carried, item] if self._reasons else carried

    def _id(self, kind: str) -> str:
        """The id of an item; where it came with reasoning, that says so."""
        return f"{kind}_{self.number}{'_' if self._reasons else 'x'}"

    def _reply(self, parts: list[Row]) -> None:
        if self.random.random() < 0.3 and parts[-1]["type"].endswith("_call"):  # no words
            parts = [part for part in parts if part["type"] != "message"]
        if self._chains:
            self.given.add(parts)
            self.history.clear()
            self.fixed["previous_response_id"] = f"resp_{self.number}"
            return
        super()._reply(parts)
        if self._refers:
            said = [part for part in parts if part["type"] == "message"]
            names = {id(part): {"type": "item_reference", "id": part["id"]} for part in said}
            self.given.add(names.values())
            self.as_sent |= bool(names)
            self.history[:] = [names.get(id(item), item) for item in self.history]

    def _ask(self, parts: list[Row], alone: bool = False) -> None:
        if "input_text" in {part["type"] for part in parts}:
            role = "developer" if self._may("developer", 0.05) else "user"
            parts = [{"type": "message", "role": role, "content": parts}]
        super()._ask(parts)

    def _say(self, role: str, parts: list[Row]) -> None:
        self.given.add(parts)
        self.history += parts


class _Chat(Session):
    dialect = "chat"

    def _fix(self) -> None:
        self.demands = self.random.choice([set(), {"alternating"}, {"reasoning_content"}])
        tools = [{"type": "function", "function": {"name": "read", "parameters": {"type": "object"}}}]
        self.fixed = {"model": "kimi-k3", "max_tokens": 900, "tools": tools}
        self.history.append({"role": "system", "content": self.words(0.5)})

    def _text(self, share: float, role: str) -> list[Row]:
        return [{"type": "text", "text": self.words(share)}]

    def _reply(self, parts: list[Row]) -> None:
        """The calls, or the words; some are spoken, or refuse."""
        row = next((part for part in parts if "tool_calls" in part), {"role": "assistant", "content": parts[0]["text"]})
        if "tool_calls" in row and "reasoning_content" in self.demands:
            row["reasoning_content"] = self.words(self.random.choice([0.2, 0.2, 2.0]))
        elif "tool_calls" not in row and self._may("refusal", 0.1):
            row |= {"content": None, "refusal": self.words(0.1)}
        elif "tool_calls" not in row and self._may("audio", 0.1):
            row |= {"content": None, "audio": {"id": self._id("audio")}}
            self.given.add([row["audio"]])
        self.history.append(row)

    def _ask(self, parts: list[Row], alone: bool = False) -> None:
        has_results = parts[0].get("role") == "tool"
        self.given.add([] if has_results else parts)
        content = parts[0]["text"] if len(parts) == 1 and "text" in parts[0] else parts
        self.history += parts if has_results else [{"role": "user", "content": content}]


class _Gemini(Session):
    dialect, rows = "gemini", "contents"
    model, parts = "model", "parts"

    def _reply(self, parts: list[Row]) -> None:
        first = next((part for part in parts if "functionCall" in part), {})
        if first:
            first["thoughtSignature"] = self.seal.sign(json.dumps(first, sort_keys=True))
        super()._reply(parts)


class _Bedrock(Session):
    dialect = "bedrock"

    def _fix(self) -> None:
        self.fixed = {"toolConfig": {"tools": [{"toolSpec": {"name": "read", "inputSchema": {"json": {}}}}]}}

    def _opening(self, arrived: Mapping[str, Any], carried: list[Row], goes_on: bool) -> list[Row]:
        text = self.words(0.3)
        said = {"reasoningText": {"text": text, "signature": self.seal.sign(text)}}
        return [{"reasoningContent": said}] if self._may("thinking", 0.5) else []


DIALECTS: dict[str, type[Session]] = {one.dialect: one for one in (_Anthropic, _Responses, _Chat, _Gemini, _Bedrock)}

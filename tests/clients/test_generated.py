"""Sessions that mix every shape, through the doors of the package, before the strict rules; these rules refuse what the
providers refuse, and nothing else; what the judge of real clients has to see."""

import ast
import re
from collections import Counter
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from copy import deepcopy
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from evals.clients import rules
from evals.clients.judge import Verdict, judge
from evals.clients.rules import Given, Seal, problem
from evals.clients.upstream import Seen
from tests.clients import players
from tests.clients.generated import BINDING, DIALECTS, Session


async def test_what_a_door_does_wrong_is_seen(monkeypatch: pytest.MonkeyPatch):
    @asynccontextmanager
    async def forgets(session: Session) -> AsyncIterator[Any]:
        async def send(body: Any) -> players.Arrived:
            kept = [[part for part in row["content"] if "_tool_result" not in part["type"]] for row in body["messages"]]
            rows = [{**row, "content": blocks} for row, blocks in zip(body["messages"], kept, strict=True)]
            return players.Arrived({**body, "messages": rows}, session.betas)

        yield send

    monkeypatch.setitem(players.DOORS, "forgets", (forgets, ("anthropic",), ()))
    assert len((await players.run("forgets", [1], steps=20, budget=4_000)).problems) > 5


@pytest.mark.parametrize(("door", "seeds"), [("amplifier", [43, 65, 228, 257]), ("proxy", [230, 247, 252])])
async def test_large_thinking_of_the_newest_turn_and_a_found_tool_alone_in_its_row_reach_the_provider(door, seeds):
    assert (await players.run(door, seeds, steps=36, budget=4_000)).problems == []


@pytest.mark.parametrize("unknown", [False, True])
@pytest.mark.parametrize("door", ["library", "proxy", "amplifier"])
async def test_every_shape_has_a_lawful_view(door: str, unknown: bool):
    """A block of an unknown type travels whole, or is covered whole."""
    steps = 24 if unknown else 36
    verdict = await players.run(door, players.SESSIONS, steps=steps, budget=players.BUDGET, unknown=unknown)
    assert verdict.problems == []
    assert verdict.shortened > 10


# The rules

SEAL = Seal(b"secret")
THOUGHT = {"type": "thinking", "thinking": "hm", "signature": SEAL.sign("hm")}


def call(id: str = "a") -> dict[str, Any]:
    return {"type": "tool_use", "id": id, "name": "Bash", "input": {"command": "ls"}}


def result(id: str = "a") -> dict[str, Any]:
    return {"type": "tool_result", "tool_use_id": id, "content": "src"}


def messages(*rows: tuple[str, Any]) -> dict[str, Any]:
    fixed = {"max_tokens": 9, "tools": [{"name": "Bash"}], "thinking": {"type": "enabled"}}
    return {**fixed, "messages": [{"role": role, "content": content} for role, content in rows]}


def marked(*lives: str) -> list[dict[str, Any]]:
    marks = [{"type": "ephemeral", "ttl": life} for life in lives]
    return [{"type": "text", "text": "a", "cache_control": mark} for mark in marks]


LONG_IN_SHORT = {**marked("5m")[0], **result(), "content": marked("1h")}
GOOD = messages(("user", "hi"), ("assistant", [THOUGHT, call("a"), call("b")]), ("user", [result("a"), result("b")]))


def turn(said: Any, answer: Any, *more: tuple[str, Any]) -> dict[str, Any]:
    """A reply to hello, what the user answers, and more."""
    return messages(("user", "hi"), ("assistant", said), ("user", answer), *more)


def test_a_tool_is_called_only_behind_what_made_it_known():
    tools = [{"name": "Bash"}, {"name": "Map", "defer_loading": True}]
    used = [("assistant", [THOUGHT, {**call(), "name": "Map"}]), ("user", [result()])]
    found: dict[str, Any] = {"tool_references": [{"type": "tool_reference", "tool_name": "Map"}]}
    found["type"] = "tool_search_tool_search_result"
    reference = {"type": "tool_search_tool_result", "tool_use_id": "s1", "content": found}
    search = {"type": "server_tool_use", "id": "s1", "name": "tool_search_tool_bm25", "input": {"query": "tides"}}
    addition = {"type": "tool_addition", "tool": {"type": "tool_reference", "name": "Map"}}
    loaded, added = [("assistant", [search, reference]), ("user", "use it")], [("system", [addition])]
    removed = [("assistant", "Yes."), ("user", "no"), ("system", [{**addition, "type": "tool_removal"}])]
    for rows, is_known in ((loaded, True), ([], False), (added, True), ([*added, *removed], False)):
        said = problem("anthropic", {**messages(("user", "hi"), *rows, *used), "tools": tools}, SEAL)
        assert said == "" if is_known else "not available" in said


def test_bound_thinking_holds_only_behind_what_it_was_signed_for():
    brief = {"system": "Be brief."}
    asked = messages(("user", "hi")) | brief
    thought = {**THOUGHT, "signature": SEAL.bind("hm", asked)}
    second = {**THOUGHT, "signature": SEAL.bind("hm", asked, [thought])}
    body = turn([thought, call()], [result()]) | brief
    other = body | {"messages": [{"role": "user", "content": "hello"}, *body["messages"][1:]]}
    dropping = {"thinking": {"type": "adaptive", "block_binding": {"prefix_mismatch_behavior": "drop_block"}}}
    assert problem("anthropic", other | dropping, SEAL, betas=[BINDING]) == ""
    assert "block_binding" in problem("anthropic", other | dropping, SEAL)
    both, half = (turn([*said, call()], [result()]) | brief for said in ([thought, second], [second]))
    for good in (body, both):
        assert problem("anthropic", good, SEAL) == ""
    for bad in (other, half, body | {"system": "Be long."}):
        assert "earlier messages" in problem("anthropic", bad, SEAL)
    with_mark, without = (messages(("user", said)) for said in (marked("5m"), [{"type": "text", "text": "a"}]))
    assert SEAL.bind("hm", with_mark) == SEAL.bind("hm", without)


def chat(**row: Any) -> dict[str, Any]:
    return {"messages": [{"role": "user", "content": "hi"}, {"role": "assistant", **row}]}


ANSWER = {"role": "tool", "tool_call_id": "a", "content": "src"}
REASONING = {"type": "reasoning", "id": "rs_1", "summary": [], "encrypted_content": SEAL.sign("rs_1")}
FUNCTION_CALL = {"type": "function_call", "id": "fc_1_0", "call_id": "c1", "name": "exec", "arguments": "{}"}
OUTPUT = {"type": "function_call_output", "call_id": "c1", "output": "src"}
SAID = {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "hi"}]}
PROGRAM = {"type": "program", "call_id": "p1", "code": "go()", "fingerprint": SEAL.sign("go()")}


def of(role: str, *parts: Any) -> dict[str, Any]:
    """A row of Gemini's or of Bedrock's behind a hello."""
    return {"role": role, "parts": list(parts), "content": list(parts)}


HI, USE = of("user", {"text": "hi"}), {"toolUse": {"toolUseId": "a", "name": "exec", "input": {}}}
NO_OBJECT = {"id": "a", "function": {"arguments": "[]"}}


@pytest.mark.parametrize(
    ("dialect", "body", "words"),
    [
        ("anthropic", messages(), "at least one message"),
        ("anthropic", messages(("assistant", "hi")), "first message"),
        ("anthropic", messages(("user", "hi"), ("assistant", "yes")), "end with a user message"),
        ("anthropic", messages(("user", " ")), "non-whitespace"),
        ("anthropic", turn([THOUGHT, call()], [result(), result()]), "single result"),
        ("anthropic", turn([call()], [result()]), "expected `thinking` first"),
        ("anthropic", turn([{**THOUGHT, "thinking": "other"}, call()], [result()]), "invalid `signature`"),
        ("anthropic", {**GOOD, "messages": [*GOOD["messages"], *GOOD["messages"][1:]]}, "ids must be unique"),
        ("anthropic", messages(("user", [{"type": "text", "text": "hi", "_key": 1}])), "extra inputs"),
        ("anthropic", messages(("user", marked(*["5m"] * 5))), "a maximum of 4"),
        ("anthropic", messages(("user", marked("5m", "1h"))), "must not come after"),
        ("anthropic", turn([THOUGHT, call()], [LONG_IN_SHORT, *marked("1h")]), "come after"),
        ("anthropic", turn([THOUGHT, call()], [{"type": "text", "text": "so"}, result()]), "must come first"),
        ("anthropic", {**GOOD, "max_tokens": -1}, "max_tokens"),
        ("anthropic", turn("yes", "so", ("tool", "x")), "unexpected tool"),
        ("anthropic", turn([], "so"), "must not be empty"),
        ("anthropic", {**GOOD, "tools": []}, "must define tools"),
        ("anthropic", turn([{"type": "thinking", "thinking": "hm"}], "so"), "field required"),
        ("anthropic", turn([THOUGHT, call("a b")], [result("a b")]), "match pattern"),
        ("anthropic", turn([THOUGHT, {**call(), "input": "ls"}], [result()]), "an object"),
        ("chat", {"messages": []}, "too short"),
        ("chat", {"messages": [{"role": "robot", "content": "hi"}]}, "invalid value"),
        ("chat", chat(content="yes", tool_calls=[]), "empty array"),
        ("chat", chat(content=None), "got null"),
        ("chat", chat(audio={"id": "a1"}), "unknown id"),
        ("chat", {"messages": [*chat(tool_calls=[NO_OBJECT])["messages"], ANSWER]}, "no object"),
        ("responses", {"input": []}, "at least one item"),
        ("responses", {"input": [REASONING, FUNCTION_CALL, {**PROGRAM, "call_id": "c1"}]}, "duplicate call ids"),
        ("responses", {"input": [REASONING, FUNCTION_CALL, SAID, OUTPUT]}, "no tool output"),
        ("gemini", {"contents": []}, "not specified"),
        ("gemini", {"contents": [HI, of("robot", {"text": "yes"})]}, "valid role"),
        ("gemini", {"contents": [HI, of("model")]}, "must not be empty"),
        ("gemini", {"contents": [HI, of("user", {"functionCall": {"name": "exec"}})]}, "in a turn of the user"),
        ("bedrock", {"messages": [of("assistant", {"text": "hi"}), HI]}, "must start with a user"),
        ("bedrock", {"messages": [HI, of("assistant"), HI]}, "is empty"),
        ("bedrock", {"messages": [of("user", USE)]}, "in a message of the user"),
    ],
)
def test_what_a_provider_refuses(dialect: str, body: dict[str, Any], words: str):
    assert words in problem(dialect, body, SEAL, given=Given() if "unknown id" in words else None)


# Either half of a pair. A result for which the provider waits may come with the next request.
HALVES = re.compile(
    r"tool_calls|tool|tool(Use|Result)|function(Call|Response).*|(server_|mcp_)?tool_use|(?!code_execution)\w*tool_result"
    r"|(?!mcp|code|file|image|web|tool)\w+_call(_output)?|mcp_approval_re\w+|program"
)
OPAQUE = re.compile(r"hologram_?\d+|redacted_thinking|thinking|advisor_tool_result|fallback|mcp_tool_listing")


def parts_of(body: dict[str, Any]) -> Iterator[tuple[str, Any, Any]]:
    """Each part of a request: its type, what holds it, and its place there."""
    rows = next(body[name] for name in ("messages", "input", "contents") if name in body)
    for at, row in enumerate(rows):
        yield row.get("type") or row["role"], rows, at
        if row.get("tool_calls"):
            yield "tool_calls", row, "tool_calls"
        blocks = row.get("parts", row.get("content"))
        for number, block in enumerate(blocks if isinstance(blocks, list) and "type" not in row else ()):
            yield block.get("type") or "".join(sorted(block)), blocks, number


@pytest.mark.parametrize("dialect", ["anthropic", "chat", "responses", "gemini", "bedrock"])
def test_no_request_of_a_session_may_lose_half_of_a_pair_or_change_what_is_opaque(dialect: str):
    halves, changed = Counter[str](), Counter[str]()
    for seed in range(4):
        session = DIALECTS[dialect](seed, steps=18, budget=4_000)
        for step in range(18):
            body = deepcopy(session.body())
            kept: Any = {"betas": session.betas, "demands": session.demands, "given": session.given}
            refused = partial(problem, dialect, body, session.seal, **kept)
            assert refused() == ""
            for kind, holder, place in list(parts_of(body)) if step in (8, 16) else ():
                part = holder[place]
                if HALVES.fullmatch(kind):
                    del holder[place]
                    assert refused(), f"without {kind}"
                    holder.insert(place, part) if isinstance(holder, list) else holder.update({place: part})
                    halves[kind] += 1
                if OPAQUE.fullmatch(kind) and "type" in part:
                    holder[place] = {**part, "says": "something else"}
                    assert refused(), f"another {kind}"
                    holder[place] = part
                    changed[kind] += 1
            session.answer(body)
    assert halves.total() > 80
    assert changed or dialect in ("gemini", "bedrock", "chat")


def test_what_must_not_be_is_counted():
    wrong: list[dict[str, Any]] = [{"tokens": 101}, {"problem": "no"}, {"lost": ["result-1"]}]
    sent = {"thread": "t", "kind": "agent", "tokens": 10, "cached": 0}
    requests = [Seen(at, items=["a"] * (at > 1), **sent | more) for at, more in enumerate(wrong, 1)]
    records = [{"session": "s", "activation": None, "usage": {"output": at}} for at in (1, 2, 3)]
    verdict = Verdict("codex", "1", budget=100)
    judge(verdict, requests, {"records": records, "failures": 0, "last_failure": None})
    assert (verdict.above_budget, verdict.refused, verdict.lost, verdict.holds) == (1, 1, 1, False)


def test_the_judge_uses_nothing_of_what_it_judges():
    for path in Path(rules.__file__).parent.glob("*.py"):
        for node in ast.walk(ast.parse(path.read_text("utf-8"))):
            names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
            names += [node.module or ""] if isinstance(node, ast.ImportFrom) else []
            assert not [name for name in names if name.startswith("summarizing_context")], path

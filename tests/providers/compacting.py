"""Providers that compact a conversation when they are asked to, and refuse what their pages say they refuse.

Written from platform.claude.com (compaction on demand, in the background, that keeps recent turns) and
developers.openai.com (the compact endpoint), as of November 2026. Nothing of the package is imported.
"""

import hashlib
import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from evals.clients.rules import Refused, Seal, problem

from .protocols import Json, answer, completion
from .server import Answer, Request

BETA = "compact-2026-09-04"
SUMMARY = "## Done\n- A part was done."
_BLOCK = {"type", "content", "signature"}  # fields with which a block was returned


def _must(holds: object, words: str) -> None:
    if not holds:
        raise Refused(words)


def _blocks(row: Json) -> list[Json]:
    content = row["content"]
    return [{"type": "text", "text": content}] if isinstance(content, str) else list(content)


@dataclass
class Compacting:
    """A script for `serving`: answers requests of both providers, and keeps what it has seen and refused."""

    fails: Callable[[], Answer | None] = lambda: None  # of a wish to compact
    items: Callable[[Json], Sequence[Json]] = lambda body: []  # what a model of OpenAI answers
    refused: list[str] = field(default_factory=list)
    asked: list[Json] = field(default_factory=list)  # the wishes to compact
    carried: int = 0  # requests with a block
    _given: dict[str, list[Json]] = field(default_factory=dict)  # what was returned, by its last block

    def __call__(self, request: Request) -> Answer:
        try:
            reply = self._reply(request)
        except Refused as refused:
            self.refused.append(str(refused))
            body = {"type": "error", "error": {"type": "invalid_request_error", "message": str(refused)}}
            return Answer(400, body=json.dumps(body).encode())
        return reply if isinstance(reply, Answer) else Answer(body=json.dumps(reply).encode())

    def _reply(self, request: Request) -> Json | Answer:
        path = request.path.partition("?")[0]
        if path.endswith("/messages"):
            self._check_anthropic(request.body, request.headers.get("anthropic-beta", "").split(","))
            if request.body.get("compaction"):
                return self._wished(request.body) or self._block(request.body)
            return _message([{"type": "text", "text": SUMMARY}], "end_turn", input_tokens=900, output_tokens=30)
        if path.endswith("/responses/compact"):
            _must(request.body.get("model"), "Missing required parameter: 'model'.")
            self._check_items(request.body)
            return self._wished(request.body) or self._window(request.body)
        if path.endswith("/chat/completions"):  # a summary
            return completion(SUMMARY)
        _must(path.endswith("/responses"), f"unknown path {path}")
        self._check_items(request.body)
        usage = {"input_tokens": 900, "output_tokens": 30, "total_tokens": 930}
        usage |= {"input_tokens_details": {"cached_tokens": 0}, "output_tokens_details": {"reasoning_tokens": 0}}
        head = {"id": f"resp_{request.number}", "object": "response", "created_at": 1, "status": "completed"}
        more = {"parallel_tool_calls": True, "tool_choice": "auto", "tools": [], "model": request.body["model"]}
        return {**head, **more, "output": list(self.items(request.body)), "usage": usage}

    def _wished(self, body: Json) -> Answer | None:
        self.asked.append(body)
        return self.fails()

    # Anthropic

    def _check_anthropic(self, body: Json, betas: Sequence[str]) -> None:
        rows, wish = body["messages"], body.get("compaction")
        if wish is not None:
            _must(BETA in betas, f"compaction: requires anthropic-beta: {BETA}")
            _must(wish.keys() <= {"type", "instructions"} and wish["type"] == "summarize", "compaction: extra inputs")
            _must(len(wish.get("instructions") or "") <= 16_384, "compaction.instructions: at most 16384 characters")
            odd = body.keys() & {"stop_sequences", "context_management"}
            odd |= {"output_config"} if "format" in (body.get("output_config") or {}) else set()
            odd |= {"tool_choice"} if (body.get("tool_choice") or {}).get("type") in ("any", "tool") else set()
            _must(not odd, f"{odd}: cannot be combined with compaction")
            _must(rows and any(row["role"] != "system" for row in rows), "compaction_nothing_to_summarize")
        blocks = [(at, number, block) for at, row in enumerate(rows) for number, block in enumerate(_blocks(row))]
        places = [place for place in blocks if place[2]["type"] == "compaction"]
        if places:
            _must(BETA in betas, "messages: `compaction` is not one of the expected content block types")
            _must(len(places) == 1, "messages: more than one compaction block")
            *place, block = places[0]
            _must(place == [0, 0], "compaction_block_misplaced")
            extra = block.keys() - _BLOCK - {"cache_control"}
            _must(not extra, f"messages.0.content.0.compaction: extra inputs are not permitted: {extra}")
            known = self._given.get(block.get("signature", ""))
            _must(known is not None, "compaction_signature_invalid")
            _must(known == [{name: block[name] for name in _BLOCK}], "compaction_content_mismatch")
            self.carried += wish is None
            rest = _blocks(rows[0])[1:]
            rows = [*([{**rows[0], "content": rest}] if rest else []), *rows[1:]]
        calls = {block["id"] for _, _, block in blocks if block["type"] == "tool_use"}
        answers = {block.get("tool_use_id") for _, _, block in blocks}
        _must(wish is None or calls <= answers, "the last assistant turn ends in a tool call with no result yet")
        said = {"role": "user", "content": "…"}
        if rows and rows[0]["role"] == "assistant" and places:  # which may follow a block
            rows = [said, *rows]
        if wish is not None and rows[-1]["role"] == "assistant":  # which may end what is summarized
            rows = [*rows, said]
        if rows:
            wrong = problem("anthropic", {**body, "messages": rows}, Seal(b"provider"), betas=betas)
            _must(not wrong, wrong)

    def _block(self, body: Json) -> Json:
        name = hashlib.sha256(json.dumps(body["messages"]).encode()).hexdigest()[:20]
        said = f"The provider's own words, number {len(self.asked)}."
        block = {"type": "compaction", "content": said, "signature": f"sig{name}"}
        self._given[block["signature"]] = [block]
        iterations = [{"type": "compaction", "input_tokens": 5_000, "output_tokens": 60}]
        return _message([block], "compaction", input_tokens=0, output_tokens=0, iterations=iterations)

    # OpenAI

    def _check_items(self, body: Json) -> None:
        items = body["input"]
        if found := [item for item in items if isinstance(item, dict) and item.get("type") == "compaction"]:
            _must(len(found) == 1, "input: more than one compaction item")
            window = self._given.get(found[0].get("encrypted_content", ""))
            _must(window is not None, "input: the encrypted content could not be verified")
            _must(items[: len(window)] == window, "input: the compacted window is not as it was returned")
            self.carried += 1
            items = items[len(window) :]
        if items:
            wrong = problem("responses", {"input": items}, Seal(b"provider"))
            _must(not wrong, wrong)

    def _window(self, body: Json) -> Json:
        name = hashlib.sha256(json.dumps(body["input"]).encode()).hexdigest()
        kept = [item for item in body["input"] if item.get("role") == "user"]
        item = {"id": f"cmp_{name[:12]}", "type": "compaction", "encrypted_content": name * 4}
        self._given[item["encrypted_content"]] = window = [*kept, item]
        usage = {"input_tokens": 5_000, "output_tokens": 60, "total_tokens": 5_060}
        return {"id": "resp_c", "object": "response.compaction", "created_at": 1, "output": window, "usage": usage}


def _message(content: list[Json], stop: str, **usage: Any) -> Json:
    return {**answer(content, reason=stop, usage=usage), "model": "claude-opus-5-5", "stop_sequence": None}

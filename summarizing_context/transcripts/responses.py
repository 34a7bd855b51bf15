"""Items of OpenAI's Responses API as chat messages: of requests and lists, one a line, and of rollouts of Codex."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from summarizing_context.transcripts.base import Compaction, Content, Draft, Fields, Row, fields, text_of, tool_call

_CALLS = frozenset(
    {"function_call", "custom_tool_call", "local_shell_call", "shell_call", "apply_patch_call", "computer_call"}
    | {"tool_search_call", "program", "mcp_call"}
)
_OUTPUTS = frozenset(f"{name}_output" for name in _CALLS) | {"tool_search_output"}
_OTHERS = frozenset(
    {"reasoning", "compaction", "item_reference", "web_search_call", "file_search_call", "code_interpreter_call"}
    | {"image_generation_call", "mcp_list_tools", "mcp_approval_request", "mcp_approval_response"}
)
_TEXTS = frozenset({"input_text", "output_text", "text", "summary_text", "refusal"})
CODEX = frozenset({"session_meta", "response_item", "event_msg", "turn_context", "compacted"})  # types of rows


def _add_item(draft: Draft, item: Fields, line: int = 0, prefix: str = "") -> None:
    """Add one item. Calls that follow each other, and the text before them, are one message."""
    kind = item.text("type") or ("message" if item.text("role") else "")
    call_id = item.get("call_id") or item.get("id")
    if kind == "message":
        metadata = item.at("internal_chat_message_metadata_passthrough").each("content_item_metadata")
        origins = {str(each.at("provenance").get("type")) for each in metadata}
        marks = {"source": "hook"} if origins == {"harness"} else None  # Codex wrote all of it
        draft.say(item.text("role") or "user", _content(item.get("content")), line=line, marks=marks)
        draft.reply = draft.messages[-1] if item.text("role") == "assistant" else None
    elif kind in _CALLS:
        if draft.reply is None:
            draft.say("assistant", "", line=line)
            draft.reply = draft.messages[-1]
        free = (item[name] for name in ("input", "action", "operation", "code") if name in item)
        given = item.get("arguments")
        arguments = {"input": next(free, None)} if given is None else given
        draft.reply.setdefault("tool_calls", []).append(tool_call(call_id, item.get("name") or kind, arguments))
    elif kind not in _OUTPUTS:
        draft.skip(prefix, kind)
    output = item.get("output", item.get("tools", item.get("result", item.get("error"))))
    if kind in _OUTPUTS or (kind == "mcp_call" and output):
        draft.reply = None
        if isinstance(output, list) and all(fields(block).get("type") for block in output):
            output = _content(output)
        elif not isinstance(output, str):
            output = fields(output).text("content", "output") or json.dumps(output)
        draft.answer(call_id, output, line)


def _content(content: object) -> Any:
    """Return text as a string; a list of blocks in the shape of chat where there is more than text."""
    made: list[Any] = []
    for block in content if isinstance(content, list) else []:
        held = fields(block)
        if held.text("type") in _TEXTS:
            made.append({"type": "text", "text": held.get("text") or held.get("refusal") or ""})
        elif held.text("type") == "input_image":
            made.append({"type": "image_url", "image_url": {"url": held.get("image_url") or ""}})
        else:
            made.append(block)
    is_text = all(fields(block).get("type") == "text" for block in made)
    return text_of(made or content) if is_text else made


def is_item(item: Fields) -> bool:
    """Return whether only this API has such an item: a call, its output, reasoning, a typed message."""
    kind = item.text("type")
    if kind == "message":
        return bool(item.text("role")) and "content" in item
    return kind in _CALLS | _OUTPUTS | _OTHERS and "role" not in item


def records(content: Content) -> list[Row]:
    said = fields(content.value).get("input")
    prompt = [Row(0, Fields(type="message", role="user", content=said))] if isinstance(said, str) else []
    return [*prompt, *content.records("input", "output", "items", "data")]


def read_responses(content: Content) -> Iterator[Draft]:
    """Yield the items as one session, after the instructions of the request."""
    draft = Draft(content.stem)
    if instructions := fields(content.value).text("instructions"):
        draft.say("system", instructions)
    for index, (line, item) in enumerate(records(content)):
        if item:
            _add_item(draft, item, line)
        else:
            content.fault(0, f"item {index + 1} is not an object; each needs a type")
    yield draft


def read_codex(content: Content) -> Iterator[Draft]:
    """Yield the one session of a rollout: its items. Its events repeat them for the screen, or take turns back."""
    metas = [value.at("payload") for _, value in content.rows if value.get("type") == "session_meta"]
    draft = Draft((metas[0] if metas else Fields()).text("id") or content.stem)
    size: int | None = None  # tokens of the context as Codex counted them last
    size_before_reply: int | None = None
    for line, value in content.rows:
        kind, payload = value.text("type"), value.at("payload")
        if kind == "response_item":
            size_before_reply = size if payload.get("role") == "assistant" else size_before_reply
            _add_item(draft, payload, line, "response_item")
            continue
        if kind not in CODEX and is_item(value):  # early versions wrote items without an envelope
            _add_item(draft, value, line)
            continue
        if kind == "compacted":
            draft.reply = None
            tokens, summary = size, text_of(payload.get("message"))
            last = fields(draft.messages[-1] if draft.messages else None)
            if last.get("role") == "assistant" and last.text("content") and summary.endswith(last["content"]):
                del draft.messages[-1], draft.lines[len(draft.messages) :]  # the summary as a reply is no message
                draft.skip("compaction summary")
                tokens = size_before_reply
            draft.compactions.append(Compaction(len(draft.messages), None, tokens, None, summary))
            continue
        draft.skip(kind, payload.get("type"))
        if payload.get("type") == "token_count":
            total = payload.at("info").at("last_token_usage").count("total_tokens")
            size = total or size
            for at, each in enumerate(draft.compactions):
                draft.compactions[at] = replace(each, tokens_after=each.tokens_after or total or None)
        elif payload.get("type") == "thread_rolled_back":
            draft.reply = None
            turns = [at for at, message in enumerate(draft.messages) if _is_typed(message)]
            count = min(payload.count("num_turns") or 0, len(turns))
            if count > 0:
                at = turns[-count]
                while at > turns[0] and draft.messages[at - 1]["role"] in ("user", "developer") and at - 1 not in turns:
                    at -= 1  # what the client said of the surroundings goes with the turn
                draft.rewind(at)
    yield draft


def _is_typed(message: dict[str, Any]) -> bool:
    """Return whether a user typed a message, so that a turn begins with it: the client puts tags around its own."""
    text = text_of(message["content"]).strip()
    tag = text[1 : text.find(">")] if text.startswith("<") else ""
    is_own = text.startswith("# AGENTS.md instructions") or (
        tag.replace("_", "").isalpha() and text.endswith(f"</{tag}>")
    )
    return message["role"] == "user" and "metadata" not in message and not is_own

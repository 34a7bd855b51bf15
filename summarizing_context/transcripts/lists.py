"""Lists of messages and items in the shape of a provider, one a line or as one value; rollouts of Codex."""

from __future__ import annotations

import json
import tomllib
from collections.abc import Iterator, Sequence
from importlib.resources import files
from typing import Any

from summarizing_context.messages.reading import read_message
from summarizing_context.transcripts.base import SUMMARY, Content, Draft, Record, listed, record, text_of, tool_call

RECORDS = tomllib.loads((files(__package__) / "records.toml").read_text("utf-8"))  # of all clients
TYPES = {name: frozenset(types) for name, types in RECORDS["types"].items()}
_CALLS, _OUTPUTS = TYPES["calls"], TYPES["outputs"]


def read_finetune(content: Content) -> Iterator[Draft]:
    for number, row in enumerate(content.rows, start=1):
        if not isinstance(row.get("messages"), list):
            content.fault(row.line, "a line without a list `messages`; each needs one")
        draft = Draft(f"{content.stem}:{row.line or number}", row.line)
        yield _read_request(content, draft, row, [record(item, row.line) for item in listed(row.get("messages"))])


def read_list(content: Content) -> Iterator[Draft]:
    """Yield the messages as they are, after the system prompt that stands beside them; also one a line."""
    yield _read_request(content, Draft(content.stem), record(content.value), content.records("messages"))


def _read_request(content: Content, draft: Draft, request: Record, messages: Sequence[Record]) -> Draft:
    """Add the messages of a request, without the keys that begin with `_`."""
    if request.get("system"):
        draft.add({"role": "system", "content": request["system"]})
    needed = "message {} is not an object; each needs a role and a content"
    for message in content.walk(draft, messages, Record, needed):
        draft.add({key: item for key, item in message.items() if not key.startswith("_")})
    draft.skipped.update(f"key:{key}" for key in request if key not in ("messages", "system"))
    return draft


def _add_item(draft: Draft, item: Record, prefix: str = "") -> None:
    """Add one item. Calls that follow each other, and the text before them, are one message."""
    kind = item.text("type") or ("message" if item.text("role") else "")
    call_id = item.get("call_id") or item.get("id")
    if kind == "message":
        metadata = item.at("internal_chat_message_metadata_passthrough").each("content_item_metadata")
        origins = {str(each.at("provenance").get("type")) for each in metadata}
        marks = {"source": "hook"} if origins == {"harness"} else None  # Codex wrote all of it
        draft.say(item.text("role") or "user", _content(item.get("content")), marks=marks)
        draft.reply = draft.messages[-1] if item.text("role") == "assistant" else None
    elif kind in _CALLS:
        if draft.reply is None:
            draft.say("assistant", "")
            draft.reply = draft.messages[-1]
        arguments = item.get("arguments")
        if arguments is None:
            free = (item[name] for name in ("input", "action", "operation", "code") if name in item)
            arguments = {"input": next(free, None)}
        draft.reply.setdefault("tool_calls", []).append(tool_call(call_id, item.get("name") or kind, arguments))
    elif kind not in _OUTPUTS:
        draft.skip(prefix, kind)
    output = item.get("output", item.get("tools", item.get("result", item.get("error"))))
    if kind in _OUTPUTS or (kind == "mcp_call" and output):
        draft.reply = None
        if isinstance(output, list) and all(record(block).get("type") for block in output):
            output = _content(output)
        elif not isinstance(output, str):
            output = record(output).text("content", "output") or json.dumps(output)
        draft.answer(call_id, output)


def _content(content: object) -> Any:
    """Return blocks in the shape of chat; a text where there are none."""
    made: list[Any] = []
    for block in listed(content):
        held = record(block)
        if held.text("type") in ("input_text", "output_text", "text", "summary_text", "refusal"):
            made.append({"type": "text", "text": held.get("text") or held.get("refusal") or ""})
        elif held.text("type") == "input_image":
            made.append({"type": "image_url", "image_url": {"url": held.get("image_url") or ""}})
        else:
            made.append(block)
    return made or text_of(content)


def is_item(item: Record) -> bool:
    """Return whether only this API has such an item: a call, its output, reasoning, a typed message."""
    kind = item.text("type")
    if kind == "message":
        return bool(item.text("role")) and "content" in item
    return kind in _CALLS | _OUTPUTS | TYPES["others"] and "role" not in item


def items_of(content: Content) -> list[Record]:
    """Return the items of a request and its response, or of a list."""
    said = record(content.value).get("input")
    prompt = [Record(type="message", role="user", content=said)] if isinstance(said, str) else []
    return [*prompt, *content.records("input", "output", "items", "data")]


def read_responses(content: Content) -> Iterator[Draft]:
    """Yield the items as one session, after the instructions of the request."""
    draft = Draft(content.stem)
    if instructions := record(content.value).text("instructions"):
        draft.say("system", instructions)
    for item in content.walk(draft, items_of(content), Record, "item {} is not an object; each needs a type"):
        _add_item(draft, item)
    yield draft


def read_codex(content: Content) -> Iterator[Draft]:
    """Yield the one session of a rollout: its items. Its events repeat them for the screen, or take turns back."""
    names = (row.at("payload").text("id") for row in content.rows if row.get("type") == "session_meta")
    draft = Draft(next(names, "") or content.stem)
    for row in content.rows:
        draft.line = row.line
        kind, payload = row.text("type"), row.at("payload")
        event = payload.get("type")
        if kind == "response_item":
            _add_item(draft, payload, "response_item")
        elif is_item(row):  # early versions wrote items without an envelope
            _add_item(draft, row)
        elif kind == "compacted":
            draft.reply = None
            draft.skip(kind)
            summary = text_of(payload.get("message"))
            last = record(draft.messages[-1] if draft.messages else None)
            if last.get("role") == "assistant" and last.text("content") and summary.endswith(last["content"]):
                del draft.messages[-1], draft.lines[-1]  # the summary as a reply is no message
                draft.skip(SUMMARY)
        else:
            draft.skip(kind, event)
            if event == "thread_rolled_back":
                # the last turns, with what the client said of the surroundings before them
                draft.reply, said, count = None, draft.messages, payload.get("num_turns")
                turns = [at for at, message in enumerate(said) if read_message(message).human]
                if turns and isinstance(count, int) and count > 0:
                    at = turns[-min(count, len(turns))]
                    while at > turns[0] and at - 1 not in turns and said[at - 1]["role"] in ("user", "developer"):
                        at -= 1
                    draft.skip("rewound", count=len(said) - at)
                    del said[at:], draft.lines[at:]
    yield draft

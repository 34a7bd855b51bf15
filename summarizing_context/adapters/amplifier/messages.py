"""Messages between Amplifier and the log: blocks, rows, and views as both of its large providers take them.

Pure. What a row becomes depends on the rows before it only, so that a view goes on beginning with the one before.
"""

from __future__ import annotations

import json
import re
from collections import defaultdict, deque
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from typing import Any

from summarizing_context.messages import reading
from summarizing_context.messages.reading import Message, content_texts, encodable
from summarizing_context.messages.text import fence
from summarizing_context.messages.tokens import MESSAGE_TOKENS, estimate_text

_FIELDS: dict[str, dict[str, Any]] = {  # what a block of each type must have
    "text": {"text": str},
    "thinking": {"thinking": str, "signature": str | None, "content": list | None},  # the last two may be missing
    "redacted_thinking": {"data": str},
    "tool_call": {"id": str, "name": str, "input": dict},
    "tool_result": {"tool_call_id": str, "output": object},
    "image": {"source": dict},
    "reasoning": {"content": list, "summary": list},
}


def as_block(block: Any) -> Any:
    """Return the block as the host knows it; itself where it does already. Anything unknown becomes text."""
    kind = block.get("type") if isinstance(block, dict) else None
    form: dict[str, Any] = block if isinstance(kind, str) else {}
    if form.get("visibility") not in (None, "internal", "developer", "user"):
        form = without(form, "visibility")
    if not _is_known(form):  # it may be of the providers' own kinds
        image = form.get("image_url") if kind in ("image_url", "input_image") else None
        url = image.get("url") if isinstance(image, dict) else image
        if kind in ("input_text", "output_text", "summary_text", "reasoning_text"):
            form = {"type": "text", "text": form.get("text")}
        elif kind in ("tool_use", "tool_call"):
            arguments = _as_arguments(form.get("input", form.get("arguments", {})))
            form = {**without(form, "arguments"), "type": "tool_call", "input": arguments}
        elif kind == "tool_result":
            said = {"output": form.get("output", form.get("content", ""))}
            said["tool_call_id"] = form.get("tool_call_id", form.get("tool_use_id"))
            form = {**without(form, "tool_use_id", "content"), **said}
        elif isinstance(url, str):
            head, comma, data = url.partition(";base64,")
            source = {"type": "url", "url": url}
            if comma and head.startswith("data:"):
                source = {"type": "base64", "media_type": head.removeprefix("data:"), "data": data}
            form = {"type": "image", "source": source}
    if _is_known(form):
        return form
    return {"type": "text", "text": "\n".join(content_texts([block])) or f"[{kind or 'empty'}]"}


def _is_known(block: dict[str, Any]) -> bool:
    fields = _FIELDS.get(str(block.get("type")), {})
    has_output = "output" in block or "output" not in fields
    return bool(fields) and has_output and all(isinstance(block.get(name), of) for name, of in fields.items())


def without(block: dict[str, Any], *names: str) -> dict[str, Any]:
    return {name: value for name, value in block.items() if name not in names}


def _as_arguments(value: Any) -> dict[str, Any]:
    """Return the arguments of a call as an object, which is the only form that the host knows."""
    parsed = value
    with suppress(TypeError, ValueError, RecursionError):
        parsed = json.loads(value)
    return parsed if isinstance(parsed, dict) else {"arguments": value}


_GIVEN = "_amplifier"  # what the host gave of a row whose content is the exact copy; never sent and never counted


def as_logged(message: Any) -> Any:
    """Return the message as the log has it. The host's provider for Anthropic keeps, and sends, an exact copy of what
    the model said. Where it has more blocks than the content, such as tools of the server, it is the content here."""
    copy = _copy_of(message)
    if all(map(_is_hosts, copy)):
        return message
    given = {key: message[key] for key in ("content", "tool_calls", "metadata") if key in message}
    kept = reading.without_wire_content(without(message, "tool_calls"))
    return {**kept, "content": copy, _GIVEN: given}


def as_given(row: Message) -> Message:
    return {**without(row, _GIVEN), **row[_GIVEN]} if _GIVEN in row else row


def _is_hosts(block: Any) -> bool:
    """Return whether the content of a row has such a block of the copy too."""
    kind = block.get("type") if isinstance(block, dict) else None
    return kind in ("text", "thinking", "redacted_thinking", "tool_use")


def _copy_of(message: Any) -> list[Any]:
    for key in ("metadata", "anthropic", "wire_content"):
        message = message.get(key) if isinstance(message, Mapping) else None
    return message if isinstance(message, list) else []


def as_row(message: Message) -> Message:
    """The message as the host's `Message` accepts it; nearly always itself."""
    if _GIVEN in message:  # with the exact copy beside its content again, with what the view has left of it
        blocks, given = message["content"], message
        message = as_given(given)
        if blocks != _copy_of(message):
            kept = blocks
            if isinstance(blocks, list):  # a provider looks for the copy beside blocks only
                kept = list(filter(_is_hosts, blocks)) or [{"type": "text", "text": NO_TEXT}]
            message = {**without(given, _GIVEN), "content": kept}
            if kept != blocks:
                metadata = given.get("metadata") or {}
                copies = {**(metadata.get("anthropic") or {}), "wire_content": blocks}
                message["metadata"] = {**metadata, "anthropic": copies}
    row = message
    if message["role"] not in ("system", "developer", "user", "assistant", "tool"):  # a provider drops other rows
        row = {**row, "role": "user"}
    content = message.get("content")
    if isinstance(content, list):
        blocks = [as_block(block) for block in content]
        if any(new is not old for new, old in zip(blocks, content, strict=True)):
            row = {**row, "content": blocks}
    elif not isinstance(content, str):
        row = {**row, "content": "" if content is None else reading.canonical_json(content)}
    for key, kind in (("name", str), ("tool_call_id", str), ("metadata", dict), ("tool_calls", list)):
        if row.get(key) is not None and not isinstance(row[key], kind):
            row = without(row, key)
    return row


NO_TEXT = "[no text]"
NOT_YET = "[no result of this call yet]"
_BAD = re.compile(r"[^A-Za-z0-9_-]")


def fit_rows(view: Iterable[Message]) -> tuple[list[Message], int]:
    """Return a view as rows of a request, and how many tokens these cost beyond it, about."""
    fitter = _Fitter()
    rows: list[Message] = []
    extra, begun = 0, False
    for message in view:
        # mended before, for ids have to stay alike, and after, for what stood in JSON text has been read then
        made = list(map(encodable, fitter.rows_of(encodable(message))))
        if made and not begun and made[0]["role"] not in ("system", "developer"):
            begun = True
            if made[0]["role"] != "user":
                made.insert(0, {"role": "user", "content": "[the conversation begins with the assistant]"})
        if len(made) != 1 or made[0] is not message:
            extra += max(0, sum(map(_cost, made)) - _cost(message))
        rows += made
    waiting = [wire for ours in fitter.open.values() for wire in ours]
    in_flight = [{"role": "tool", "tool_call_id": wire, "content": NOT_YET} for wire in waiting]
    return rows + in_flight, extra + sum(map(_cost, in_flight))


class _Fitter:
    """What has to be known of the rows before."""

    def __init__(self) -> None:
        self._used: set[str] = set()  # ids on the wire
        self.open: defaultdict[str, deque[str]] = defaultdict(deque)  # ours -> wire

    def rows_of(self, message: Message) -> Iterator[Message]:
        row = as_row(message)
        content = row["content"]
        blocks = content if isinstance(content, list) else []
        if reading.is_result(message):
            yield self._result(row, reading.call_id(message.get("tool_call_id")), content)
        elif row["role"] == "assistant":
            # without thinking that no provider takes back: it has no signature, nor the state that others keep
            named = ("signature", "content")
            kept = [block for block in blocks if block["type"] != "thinking" or any(map(block.get, named))]
            if kept != blocks:
                row, blocks = {**row, "content": kept}, kept
            shown = [block for block in blocks if block["type"] == "tool_call"]
            ids = {block["id"] for block in shown}
            added = [call for call in _calls_of(row) if call["id"] not in ids]
            own = {block["tool_call_id"] for block in blocks if block["type"] == "tool_result"}  # answered in place
            wired = {id(block): self._call(block["id"]) for block in [*shown, *added] if block["id"] not in own}
            text = [{"type": "text", "text": content}] if added and content and isinstance(content, str) else []
            made = [
                {**block, "id": wired[id(block)]} if id(block) in wired else _worded(block, "image")
                for block in [*text, *blocks, *added]
            ]
            if made != blocks:
                row = {**without(reading.without_wire_content(row), "tool_calls"), "content": made}
                if wired:
                    row["tool_calls"] = [  # under the names of all who read them
                        {"id": block["id"], "tool": block["name"], "name": block["name"], "arguments": block["input"]}
                        for block in made
                        if block["type"] == "tool_call"
                    ]
            yield _spoken(row) or {**row, "content": NO_TEXT}
        elif row["role"] == "user":
            # results first, each as a row of its own; then what a person, or a program, has said
            blocks = blocks if isinstance(content, list) else [{"type": "text", "text": content}]
            for block in blocks:
                if block["type"] == "tool_result":
                    failed = {"is_error": True} if block.get("is_error") is True else {}
                    yield self._result({"role": "tool", **failed}, block["tool_call_id"], block["output"])
            rest = [block for block in blocks if block["type"] != "tool_result"] + list(_calls_of(row))
            if "tool_calls" in row or any(block["type"] in ("tool_call", "tool_result") for block in blocks):
                row = {**without(row, "tool_calls"), "content": list(map(_worded, rest))}
            if rest or not blocks:
                yield _spoken(row) or {**row, "content": NO_TEXT}
        elif said := _spoken(row):
            yield said

    def _result(self, row: Message, answered: str, output: Any) -> Message:
        waiting = self.open[answered]
        wire = waiting.popleft() if waiting else None
        content: Any = output
        if isinstance(output, list):
            content = list(map(as_block, output))
        elif not isinstance(output, str):
            content = "" if output is None else "\n".join(content_texts([output]))
        if wire is None:
            said = "\n".join(content_texts(content))
            return {"role": "user", "content": fence("earlier_message", said, role="tool")}
        if (row["role"], row.get("tool_call_id")) == ("tool", wire) and row.get("content") == content:
            return row
        return {**row, "role": "tool", "tool_call_id": wire, "content": content}

    def _call(self, ours: str) -> str:
        """The id of a call on the wire: the same, unless a provider would refuse it or it was used before."""
        cleaned, number = _BAD.sub("_", ours)[:56] or "call", 2
        wire = ours if re.fullmatch(r"[A-Za-z0-9_-]{1,64}", ours) else cleaned
        while wire in self._used:
            wire, number = f"{cleaned}_{number}", number + 1
        self._used.add(wire)
        self.open[ours].append(wire)
        return wire


def _calls_of(row: Message) -> Iterator[dict[str, Any]]:
    """Yield the calls that `tool_calls` lists, as blocks."""
    for call in row.get("tool_calls") or ():
        if isinstance(call, dict):
            read = reading.read_call(call)
            name, arguments = str(read.inner.get(read.named_in) or "tool"), read.inner.get(read.said_in, {})
            yield {"type": "tool_call", "id": read.id, "name": name, "input": _as_arguments(arguments)}


def _worded(block: dict[str, Any], *others: str) -> dict[str, Any]:
    """A block as text where its row may not hold it: calls and results stand elsewhere, `others` nowhere."""
    if block["type"] not in ("tool_call", "tool_result", *others):
        return block
    words = content_texts([block])
    name = _BAD.sub("_", str(block.get("name") or block["type"]))[:64]
    return {"type": "text", "text": fence("earlier_message", "\n".join(words), of=name) if words else f"[{name}]"}


def _spoken(row: Message) -> Message | None:
    """The row without empty texts; None if nothing is left that could be sent."""
    content = row["content"]
    if isinstance(content, str):
        return row if content.strip() else None
    kept = [block for block in content if block["type"] != "text" or block["text"].strip()]
    if all(block["type"] in ("thinking", "redacted_thinking", "reasoning") for block in kept):
        if not kept:
            return None
        kept.append({"type": "text", "text": NO_TEXT})
    return row if kept == content else {**row, "content": kept}


def _cost(message: Message) -> int:
    return MESSAGE_TOKENS + sum(map(estimate_text, reading.message_text_parts(message)))

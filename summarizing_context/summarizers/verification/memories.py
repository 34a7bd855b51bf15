"""Memories as a model proposes them: kept only where the record says the same.

Pure. A quote has to stand, word for word, in the message that it names. What a memory says is the sentence around it,
so that no half of one turns its meaning, and a question says nothing. What a model says of itself is only what the
sentence is about.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from typing import Any, NamedTuple

from summarizing_context.messages.search_terms import stems

HUMAN = "user"  # the label of what a person says
_LONGEST = 500  # characters of a quote, and of the sentence around it
_QUESTION = re.compile(r"[.!…！\"'”’)\]*_\s]*+[?？؟]")  # read from the end


class Item(NamedTuple):
    """Something worth to be remembered, as the record bears it out."""

    kind: str  # fact, decision or preference
    about: str  # what it is about; empty where that is not known
    text: str  # what was said: a sentence of the record
    message: int  # of the record, from 1
    said_by: str  # the label of the block that it stands in
    relation: str = ""  # what it says of its subject, where that is known


def read_items(reply: str, record: str) -> str | None:
    """Return the proposals of a reply that the record bears out, and how many others there are, as they are kept; None
    where the reply is of another form."""
    # each object of the reply, in a list, on lines or alone; None for what begins like one and is broken
    proposals, decoder, end = list[Any](), json.JSONDecoder(), 0
    while (opening := reply.find("{", end)) >= 0:
        try:
            found, end = decoder.raw_decode(reply, opening)
        except (ValueError, RecursionError):
            found, end = None, opening + len(reply[opening:].partition("\n")[0])
        listed = [value for value in found.values() if isinstance(value, list)] if found else []
        proposals += listed[0] if listed else [found]
    if not proposals and reply.split() not in (["[]"], ["[", "]"]):
        return None
    parts = re.split(r"^### (.+?)(?: \(\d+ times\))? \[(\d+)\]$\n?", record, flags=re.MULTILINE)
    blocks = [(label, int(at), body) for label, at, body in zip(parts[1::3], parts[2::3], parts[3::3], strict=True)]
    items = list(dict.fromkeys(item for one in proposals[:20] if (item := _checked(one, blocks)) is not None))
    return json.dumps({"items": items, "dropped": len(proposals) - len(items)}, ensure_ascii=False)


def decode_items(text: str) -> tuple[list[Item], int]:
    """Return items as `read_items` wrote them, and how many were dropped. Raise `ValueError` for anything else."""
    try:
        found = json.loads(text)
        return [Item(*item) for item in found["items"]], int(found["dropped"])
    except (TypeError, KeyError) as error:
        raise ValueError("these are not items") from error


def _checked(proposal: Any, blocks: Sequence[tuple[str, int, str]]) -> Item | None:
    """Return what the record bears out of a proposal; None where its quote does not stand in the message that it
    names, or in a question."""
    if not isinstance(proposal, dict):
        return None
    kind, message, quote, about = map(proposal.get, ("kind", "message", "quote", "about"))
    if kind not in ("fact", "decision", "preference") or type(message) is not int or not isinstance(quote, str):
        return None
    words = quote.split()
    if not 6 <= len(" ".join(words)) <= _LONGEST or not any(map(str.isalpha, quote)):
        return None
    # No quote begins or ends inside of a word, in scripts that put spaces between them.
    before = r"(?<!\w)" if re.match(r"[A-Za-z0-9]", words[0]) else ""
    behind = r"(?!\w)" if re.match(r"[A-Za-z0-9]", words[-1][-1]) else ""
    said = re.compile(before + r"\s+".join(map(re.escape, words)) + behind)
    for label, at, block in blocks:
        if at != message or (found := said.search(block)) is None:
            continue

        # the sentence, or the sentences, that the quote stands in; the quote alone where they are long
        start, stop = found.span()
        earliest = max(0, start - _LONGEST)
        starts = re.compile(r"\n|[.!?…][\"')\]]*\s+|[。！？]").finditer(block, earliest, start)
        end = re.compile(r"\n|[.!?…][\"')\]]*(?=\s|$)|[。！？]").search(block, max(start, stop - 1))
        text = block[[earliest, *(one.end() for one in starts)][-1] : end.end() if end else len(block)]
        asks = _QUESTION.match(text.rstrip()[::-1])
        text = " ".join((text if len(text) <= _LONGEST else block[start:stop]).split())
        if asks or _QUESTION.match(text[::-1]):
            continue  # the message may have more blocks
        allowed = kind if label == HUMAN or (kind == "decision" and label == "assistant") else "fact"

        # the subject, if it shares a word with the message and holds no figure that stands not there
        flat = " ".join(about.split()) if isinstance(about, str) else ""
        strange = [word for word in flat.split() if any(map(str.isdigit, word)) and word not in block]
        is_known = len(flat) <= 80 and not strange and stems(flat) & stems(block)
        return Item(allowed, flat if is_known else "", text, message, label)
    return None

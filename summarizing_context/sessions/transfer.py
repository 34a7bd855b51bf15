"""Sessions travel between any two stores: all of one is a document in the types that JSON has.

What is known of messages travels as base64, states of views as the characters of the same numbers.
"""

from __future__ import annotations

from base64 import b64decode, b64encode
from typing import Any

import msgspec

from summarizing_context.errors import StoreCorruptError, StoreError
from summarizing_context.log.entries import imported, unsealed
from summarizing_context.log.message_log import PinList
from summarizing_context.messages.reading import check_message, decode_message, encode_message, read_message
from summarizing_context.settings import Settings
from summarizing_context.stores import base


class OtherContentError(StoreError):
    """A session of the store has the id of another one that was to be imported."""


async def export_session(store: base.SessionStore, info: base.SessionInfo) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return all of a session, and what of it is left out: damaged messages, and checkpoints of other logs."""
    stored = await store.load(info.session_id)
    if stored is None:
        raise StoreError(f"session {info.session_id!r} is no longer in the store")
    messages, damaged = list[Any](), list[int]()
    for seq, entry in enumerate(stored.entries):
        try:
            unsealed(entry.message, entry.facts)
            messages.append([decode_message(entry.message), b64encode(entry.facts).decode()])
        except StoreCorruptError:
            damaged.append(seq)
    log = [entry.message for entry in stored.entries]
    checkpoints, left_out = list[Any](), list[str]()
    for one in await store.checkpoints(info.session_id):
        kept = await store.load_checkpoint(info.session_id, one.id)
        if damaged or [entry.message for entry in kept.entries] != log[: one.seq]:
            left_out.append(one.id)
            continue
        views = [(key, state.decode("latin-1")) for key, state in kept.activations]
        checkpoints.append({"name": one.name, "seq": one.seq, "pins": kept.pins, "views": views})
    memories = await store.memories(base.MemoryScope(info.project, info.session_id))
    document = {
        "session_id": info.session_id,
        "project": info.project,
        "budget": info.budget,
        "title": info.title,
        "pins": stored.pins,
        "messages": messages,
        "summaries": [
            [*key, one.text, one.rank, one.input_tokens, one.output_tokens, place]
            for key, (one, place) in (await store.summaries_of(info.session_id)).items()
        ],
        "activations": [] if damaged else [(key, state.decode("latin-1")) for key, state in stored.activations],
        "checkpoints": checkpoints,
        "memories": [[memory.content, memory.metadata, memory.updated_at] for memory in memories],
    }
    return document, {"damaged": damaged, "checkpoints_left_out": left_out}


async def import_session(store: base.SessionStore, document: dict[str, Any]) -> tuple[str, int, int]:
    """Put one session into a store, where what is there already stays; return its id, messages, and how many are new.

    Raise `OtherContentError` for another session of that name, and errors of Python for what is no whole document.
    """
    settings = Settings(session_id=document["session_id"], project=document["project"])
    name, project = settings.session_id, settings.project
    for pins in (document["pins"], *(one["pins"] for one in document["checkpoints"])):
        msgspec.json.decode(pins or "{}", type=PinList)  # as opening does
    entries = []
    for message, facts in document["messages"]:
        data = encode_message(checked := check_message(message))
        found = imported(data, b64decode(facts), human=read_message(checked).human)
        entries.append(base.StoredEntry(data, found))
    there = await store.load(name)
    for ours, its in zip(there.entries if there else (), entries, strict=False):
        if ours.message != its.message and decode_message(ours.message) != decode_message(its.message):
            raise OtherContentError(
                f"session {name!r} has other messages in the store than in the file, and was left alone; delete it "
                "there, or import into another store"
            )
    await store.claim(name, project=project)
    stored = await store.load(name)
    assert stored is not None
    held = len(stored.entries)
    for start in range(held, len(entries), 500):  # in one transaction each
        await store.append(name, entries[start : start + 500], lambda: None)
    for range_hash, recipe_hash, *summary, place in document["summaries"]:
        key = base.SummaryKey(range_hash, recipe_hash)
        await store.save_summary(name, key, base.StoredSummary(*summary), tuple(place) if place else None)
    if held <= len(entries):  # else it has gone on further in the store
        known = {(one.name, one.seq) for one in await store.checkpoints(name)}
        for one in document["checkpoints"]:
            if (one["name"], one["seq"]) not in known:
                views = [(key, state.encode("latin-1")) for key, state in one["views"]]
                await store.save_pins(name, one["pins"], lambda: None)
                then = base.Present(stored.log_version, one["seq"], one["name"], views)
                await store.save_checkpoint(name, then)
        for provider_key, state in document["activations"]:
            await store.save_activation(name, provider_key, state.encode("latin-1"))
        await store.save_pins(name, document["pins"], lambda: None)
        if document["budget"] is not None:
            await store.save_request(name, document["budget"], document.get("title"))
    for content, metadata, said_at in document["memories"]:
        memory = base.NewMemory(content, metadata, said_at)
        await base.keep_memories(store, base.MemoryScope(project, name), [memory])
    return name, max(held, len(entries)), max(0, len(entries) - held)

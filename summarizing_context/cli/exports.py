"""`summarizing-context sessions export` and `import`: sessions travel between any two stores, each as a line of JSON.

States are any bytes, and travel as the characters of the same numbers.
"""

from __future__ import annotations

import json
from base64 import b64decode, b64encode
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from summarizing_context.cli.options import JsonPath, StorePath, read_path
from summarizing_context.cli.output import InputError, Status, number, plain, show_result, table
from summarizing_context.cli.stored import find_session, with_store
from summarizing_context.errors import MessageError, SessionInUseError, StoreCorruptError
from summarizing_context.settings.addresses import shown_store

if TYPE_CHECKING:
    from summarizing_context.stores.base import SessionInfo, SessionStore, StoredEntry

_AT_ONCE = 500  # messages that are written in one transaction


def export_sessions(
    sessions: Annotated[
        list[str], typer.Argument(metavar="SESSION...|all", help="The sessions.")
    ],
    store: StorePath,
    out: Annotated[
        Path, typer.Option("--out", metavar="FILE", parser=read_path, help="The new file, which only you can read.")
    ],
    json_path: JsonPath = None,
) -> int:
    """Write sessions as lines of JSON, for `sessions import`: messages, summaries, checkpoints, pins and memories.

    Messages that are damaged are left out and named, and so are checkpoints of logs that were replaced since.
    """
    from summarizing_context.stores.private_files import open_private

    known = {info.session_id: info for info in with_store(store, lambda opened: opened.sessions(), read_only=True)}
    asked = list(known) if sessions == ["all"] else sessions
    chosen = [known.get(name) or find_session(store, name) for name in asked]
    told: list[dict[str, Any]] = []

    async def write(opened: SessionStore) -> None:
        with open_private(out, new=True) as file:
            for info in chosen:
                document, left_out = await _document(opened, info)
                file.write(json.dumps(document).encode() + b"\n")
                counts = {kind: len(document[kind]) for kind in ("messages", "summaries", "checkpoints", "memories")}
                told.append({"session": info.session_id, **counts, **left_out})

    if out.exists():
        raise InputError(f"{out} is there already; name a new file")
    try:
        with_store(store, write, read_only=True)
    except BaseException:
        out.unlink(missing_ok=True)
        raise
    shown = table(f"Written to {plain(str(out))}", "session", "#messages", "#summaries", "#checkpoints", wide="session")
    for one in told:
        shown.add_row(plain(one["session"]), *(number(one[kind]) for kind in ("messages", "summaries", "checkpoints")))
    damaged = [f"{plain(one['session'])} {one['damaged']}" for one in told if one["damaged"]]
    if damaged:
        shown.caption = "Damaged and left out: " + "; ".join(damaged)
    show_result(json_path, {"sessions": told}, shown)
    return Status.ENVIRONMENT if damaged else Status.OK


async def _document(store: SessionStore, info: SessionInfo) -> tuple[dict[str, Any], dict[str, list[Any]]]:
    """All of a session, and what of it is left out."""
    from summarizing_context.log.entries import unsealed
    from summarizing_context.messages.validation import decode_message
    from summarizing_context.stores.base import MemoryScope

    stored = await store.load(info.session_id)
    if stored is None:
        raise InputError(f"there is no session {plain(info.session_id, 60)!r} any longer")
    messages: list[Any] = []
    damaged: list[int] = []
    for seq, entry in enumerate(stored.entries):
        try:
            unsealed(entry.message, entry.facts)
            messages.append([decode_message(entry.message), b64encode(entry.facts).decode()])
        except StoreCorruptError:
            damaged.append(seq)
    log = [entry.message for entry in stored.entries]
    checkpoints: list[Any] = []
    left_out: list[str] = []
    for one in await store.checkpoints.listed(info.session_id):
        kept = await store.checkpoints.load(info.session_id, one.id)
        if damaged or [entry.message for entry in kept.entries] != log[: one.seq]:
            left_out.append(one.id)
        else:
            views = [(key, state.decode("latin-1"), marks) for key, state, marks in kept.provider_views]
            checkpoints.append({"name": one.name, "seq": one.seq, "pins": kept.pins, "views": views})
    summaries = await store.summaries_of(info.session_id)
    memories = await store.memories.all(MemoryScope(info.project, info.session_id))
    document = {
        "session_id": info.session_id,
        "project": info.project,
        "budget": info.budget,
        "pins": stored.pins,
        "messages": messages,
        "summaries": [
            [*key, one.text, one.rank, one.input_tokens, one.output_tokens, place]
            for key, (one, place) in summaries.items()
        ],
        "activations": [] if damaged else [(key, state.decode("latin-1")) for key, state in stored.activations],
        "checkpoints": checkpoints,
        "memories": [[memory.content, memory.metadata, memory.updated_at] for memory in memories],
    }
    return document, {"damaged": damaged, "checkpoints_left_out": left_out}


def import_sessions(
    file: Annotated[Path, typer.Argument(metavar="FILE", parser=read_path, help="What `sessions export` wrote.")],
    store: StorePath,
    json_path: JsonPath = None,
) -> int:
    """Put exported sessions into a store, which is made if needed. No summary is paid for again.

    A session that the store has already is continued where its messages are the first of those in the file, and
    refused where they are others.
    """
    import anyio

    from summarizing_context.assembly import open_store

    told: list[dict[str, Any]] = []
    refused: list[str] = []

    async def run() -> None:
        opened = await open_store(store)
        try:
            with file.open(encoding="utf-8") as lines:
                for at, line in enumerate(lines, 1):
                    try:
                        told.append(await _import(opened, json.loads(line)))
                    except (_OtherContent, SessionInUseError) as error:
                        refused.append(str(error))
                    except (ValueError, KeyError, TypeError, MessageError) as error:
                        raise InputError(
                            f"{plain(str(file))}:{at}: this is no whole session, and nothing from here on was "
                            "imported; export it again, and import that: what is there already is continued"
                        ) from error
        finally:
            await opened.close()

    if not file.is_file():
        raise InputError(f"{plain(str(file))}: there is no such file; name one that `sessions export` wrote")
    anyio.run(run)
    shown = table(f"Imported into {plain(shown_store(store))}", "session", "#messages", "#new", wide="session")
    for one in told:
        shown.add_row(plain(one["session"]), number(one["messages"]), number(one["new"]))
    show_result(json_path, {"sessions": told, "refused": refused}, shown)
    if refused:
        raise InputError("; ".join(refused))
    return Status.OK


class _OtherContent(Exception):
    """A session of the store has the id of another one in the file."""


async def _import(store: SessionStore, document: dict[str, Any]) -> dict[str, Any]:
    """Put one session into a store; what is there already stays."""
    from summarizing_context.messages.validation import decode_message
    from summarizing_context.settings.values import Settings
    from summarizing_context.stores import base

    settings = Settings(session_id=document["session_id"], project=document["project"])
    name, project = settings.session_id, settings.project
    entries = [_entry(message, facts) for message, facts in document["messages"]]
    there = await store.load(name)
    for ours, its in zip(there.entries if there else (), entries, strict=False):
        if ours.message != its.message and decode_message(ours.message) != decode_message(its.message):
            raise _OtherContent(
                f"session {name!r} has other messages in the store than in the file, and was left alone; delete it "
                "there, or import into another store"
            )
    await store.claim(name, project=project)
    stored = await store.load(name)
    assert stored is not None
    held = len(stored.entries)
    for start in range(held, len(entries), _AT_ONCE):
        await store.append(name, entries[start : start + _AT_ONCE], lambda: None)
    for range_hash, recipe_hash, *told, place in document["summaries"]:
        key = base.SummaryKey(range_hash, recipe_hash)
        await store.save_summary(name, key, base.StoredSummary(*told), {key: tuple(place)} if place else base.NOWHERE)
    if held <= len(entries):  # else it has gone on further in the store
        known = {(one.name, one.seq) for one in await store.checkpoints.listed(name)}
        for one in document["checkpoints"]:
            if (one["name"], one["seq"]) not in known:
                views = [
                    base.StoredProviderView(key, state.encode("latin-1"), marks) for key, state, marks in one["views"]
                ]
                await store.save_pins(name, one["pins"], lambda: None)
                await store.checkpoints.save(name, one["name"], base.Place(stored.log_version, one["seq"]), views)
        for provider_key, state in document["activations"]:
            await store.save_activation(name, provider_key, state.encode("latin-1"))
        await store.save_pins(name, document["pins"], lambda: None)
        if document["budget"] is not None:
            await store.save_budget(name, document["budget"])
    for content, metadata, said_at in document["memories"]:
        await store.memories.add(base.MemoryScope(project, name), base.NewMemory(content, metadata, said_at))
    return {"session": name, "messages": max(held, len(entries)), "new": max(0, len(entries) - held)}


def _entry(message: Any, facts: str) -> StoredEntry:
    from summarizing_context.log.entries import unsealed
    from summarizing_context.messages.validation import check_message, encode_message
    from summarizing_context.stores.base import StoredEntry

    data, kept = encode_message(check_message(message)), b64decode(facts)
    try:
        unsealed(data, kept)
    except StoreCorruptError:  # the message was changed in the file: it is read anew
        kept = b""
    return StoredEntry(data, kept)

"""`summarizing-context migrate`: the sessions of an SQLite file go into a PostgreSQL store."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from summarizing_context.cli.output import (
    InputError,
    JsonPath,
    Status,
    example,
    help_text,
    notices,
    number,
    plain,
    show_result,
    table,
)
from summarizing_context.settings.addresses import check_scheme, is_address, shown_store, unknown_scheme

_OUTCOMES = {
    "copied": "compared",
    "unchanged": "compared; it was there",
    "renewed": "compared; taken over anew, for the file had gone on",
    "newer": "left alone, for it has gone on further in the new store",
    "apart": "left alone, for it has gone on in two ways",
    "other": "left alone, for another session of the new store has this id",
    "damaged": "left alone, for the file does not hold it whole",
    "open": "left alone, for a host has it open in the new store",
}


def register(app: typer.Typer) -> None:
    """Add the command to the app."""
    line = "migrate run.db postgresql://agents@db.example.org/agents"
    app.command("migrate", help=help_text(migrate), epilog=example(line))(migrate)


def migrate(
    source: Annotated[Path, typer.Argument(metavar="FILE", help="The SQLite file. It keeps all that it holds.")],
    target: Annotated[str, typer.Argument(metavar="ADDRESS", help="postgresql://user@host/database")],
    json_path: JsonPath = None,
) -> int:
    """Take every session of a file over into a PostgreSQL store, and compare both.

    Logs, checkpoints, activation states, summaries, pins, rules, memories and vectors go along. A migration that was
    cut short goes on where it was: call it again. No session of the file may be open meanwhile. A session that has gone
    on in the file since an earlier migration is taken over anew; one that has gone on in the new store is left alone.
    """
    import anyio

    from summarizing_context.assembly import migrate_store
    from summarizing_context.stores.sqlite.store import SqliteStore

    check_scheme(target)
    if not is_address(target):
        raise InputError(f"{plain(target, 60)!r} is not an address; name one such as postgresql://user@host/database")
    if unknown_scheme(str(source)) is not None:
        raise InputError("the first argument is the SQLite file, the second the address of the new store")
    if not source.is_file():
        raise InputError(
            f"{plain(str(source), 200)}: there is no such file; name the SQLite file of the sessions first"
        )
    if source.stat().st_size == 0:
        raise InputError(f"{plain(str(source), 200)}: the file is empty, so there is nothing to migrate; it stays so")

    if SqliteStore.is_empty(source):
        show_result(json_path, {"target": shown_store(target), "sessions": [], "compared": {}})
        notices().print(plain(f"Nothing to migrate: {source} holds no session. It stays as it is"), soft_wrap=True)
        return Status.OK

    def tell(one: Any) -> None:
        notices().print(plain(f"{one.session_id}: {one.messages:,} messages, {_OUTCOMES[one.outcome]}"))

    found = anyio.run(migrate_store, source, target, tell)
    shown = table(
        f"Migrated into {plain(shown_store(target))}", "session", "#messages", "#checkpoints", "", wide="session"
    )
    for one in found.sessions:
        shown.add_row(plain(one.session_id), number(one.messages), number(one.checkpoints), _OUTCOMES[one.outcome])
    sessions = [one._asdict() for one in found.sessions]
    compared = {kind.replace(" ", "_"): many for kind, many in found.compared.items()}
    show_result(json_path, {"target": shown_store(target), "sessions": sessions, "compared": compared}, shown)
    told = ", ".join(f"{kind} {many:,}" for kind, many in found.compared.items() if many)
    notices().print(f"The same in both: {told or 'nothing'}", soft_wrap=True)
    return Status.OK

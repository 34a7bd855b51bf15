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
from summarizing_context.cli.stored import check_store
from summarizing_context.settings.addresses import check_scheme, is_address, shown_store


def register(app: typer.Typer) -> None:
    """Add the command to the app."""
    line = "migrate run.db postgresql://agents@db.example.org/agents"
    app.command("migrate", help=help_text(migrate), epilog=example(line))(migrate)


def migrate(
    source: Annotated[Path, typer.Argument(metavar="FILE", help="The SQLite file. It is not changed.")],
    target: Annotated[str, typer.Argument(metavar="ADDRESS", help="postgresql://user@host/database")],
    json_path: JsonPath = None,
) -> int:
    """Take every session of a file over into a PostgreSQL store, and compare both.

    Logs, checkpoints, activation states, summaries, pins, rules, memories and vectors go along. A migration that was
    cut short goes on where it was. No session of the file may be open meanwhile.
    """
    import anyio

    from summarizing_context.assembly import migrate_store

    check_scheme(target)
    if not is_address(target):
        raise InputError(f"{plain(target, 60)!r} is not an address; name one such as postgresql://user@host/database")
    check_store(source)

    def tell(one: Any) -> None:
        notices().print(plain(f"{one.session_id}: {one.messages:,} messages, compared"))

    found = anyio.run(migrate_store, source, target, tell)
    shown = table(
        f"Migrated into {plain(shown_store(target))}", "session", "#messages", "#checkpoints", "", wide="session"
    )
    for one in found:
        shown.add_row(
            plain(one.session_id), number(one.messages), number(one.checkpoints), "" if one.is_new else "was there"
        )
    show_result(json_path, {"target": shown_store(target), "sessions": [one._asdict() for one in found]}, shown)
    return Status.OK

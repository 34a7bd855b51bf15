"""Commands on the sessions of a store: `sessions`, `view`, those of `/context` on one session, and `continue`, which
begins a session of another client with the view of a stored one."""

from __future__ import annotations

import json
import re
import shlex
import shutil
import subprocess
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime, timedelta
from difflib import get_close_matches
from inspect import Signature, signature
from pathlib import Path
from typing import Annotated, Any, Literal

import anyio
import typer
from rich.text import Text

import summarizing_context as sc
from summarizing_context import evaluation
from summarizing_context.cli import options, output
from summarizing_context.cli.options import OF_ONE, STORED, Place, argument, command, option
from summarizing_context.cli.output import InputError, Result, Status, T, dim, number, plain, progress, table
from summarizing_context.commands import COMMANDS, PREFIX, Command, activated
from summarizing_context.contrib import clients
from summarizing_context.messages.text import inert
from summarizing_context.sessions.transfer import OtherContentError, export_session, import_session
from summarizing_context.settings import Settings, is_address, shown_store
from summarizing_context.stores.base import WATCHED, SessionInfo, SessionStore
from summarizing_context.stores.private_files import open_private


def with_store(settings: Settings, act: Callable[[SessionStore], Awaitable[T]], *, read_only: bool = True) -> T:
    """Return what `act` makes of the opened store. One that is only read must be there."""
    from summarizing_context.adapters.open_sessions import opened_store

    async def within() -> T:
        async with opened_store(settings.store, read_only=read_only) as opened:
            return await act(opened)

    if read_only and not (is_address(settings.store) or Path(settings.store).exists()):
        raise sc.StoreError(f"{shown_store(settings.store)}: there is no such file; check --store")
    return anyio.run(within)


def find_sessions(settings: Settings) -> dict[str, SessionInfo]:
    return {info.session_id: info for info in with_store(settings, lambda opened: opened.sessions())}


def chosen(known: dict[str, SessionInfo], session: str, settings: Settings) -> SessionInfo:
    """Return one of the known sessions; an error names the nearest one if none has this name."""
    if session in known:
        return known[session]
    store = shown_store(settings.store)
    hint = f"see: summarizing-context sessions list --store {store}" if known else "it holds none"
    for near in get_close_matches(session, known, n=1, cutoff=0.4):
        hint = f"did you mean {near!r}?"
    raise InputError(f"{store}: there is no session {plain(session, 60)!r}; {hint}")


# One session

_BUDGET = option("N", "Tokens of a view. Default: of the last request.", parser=options.read_tokens)


@dataclass(frozen=True, kw_only=True)
class StoredSession(Place):
    """Options of a command on one session."""

    session: Annotated[str | None, argument("SESSION", "Its id; not needed if --config names it.")] = None
    budget: Annotated[int | None, _BUDGET] = None

    def find(self, words: list[str] | None = None) -> tuple[Settings, list[str]]:
        """Return the settings for a look at it, and the words that follow its id, where a command takes any: where
        `--config` or the environment names a session, what is no session's id is the first of them."""
        settings, session, rest = self.load(), self.session, words or []
        known, is_named = find_sessions(settings), settings.session_id != Settings().session_id
        if is_named and (session is None or (words is not None and session not in known)):
            rest, session = ([] if session is None else [session, *rest]), settings.session_id
        if session is None:
            raise InputError("SESSION: name a session, or set session_id in the file of --config")
        info = chosen(known, session, settings)
        budget = self.budget or (not settings.max_tokens_is_set and info.budget) or settings.max_tokens
        return replace(settings, session_id=info.session_id, project=info.project, max_tokens=budget), rest


@asynccontextmanager
async def opened_session(settings: Settings, *, read_only: bool = True) -> AsyncIterator[sc.SummarizingContext]:
    """Open a stored session, with a bar of the messages that are read."""
    async with AsyncExitStack() as stack:
        with progress("messages", 1) as update:
            WATCHED.set(update)
            context = await stack.enter_async_context(sc.open_context(settings, read_only=read_only))
        yield context


async def view_of(settings: Settings) -> tuple[list[Any], list[Any], int, int]:
    """Return the view of a stored session, its log, where the covered past ends, and the tokens of the last request's
    system prompt and tools."""
    async with opened_session(settings) as context:
        messages = await context.get_messages_for_request(token_budget=settings.max_tokens)
        log, nodes, last = await context.get_messages(), context.explain(), context.last_view
    return messages, log, nodes[-1].stop if nodes else 0, 0 if last is None else last.fixed_tokens


@command(STORED)
def view(
    at: StoredSession,
    full: Annotated[bool, typer.Option("--full", help="Print the messages as they are sent, as JSON.")] = False,
) -> Result:
    """Show the view of a session as the next request would get it.

    The session is opened for reading only: nothing is written, no summary is made, and its writer may go on.

    Examples:
        view s1 --store run.db --budget 16k
        view s1 --store run.db --full | jq -r '.[-1].content'
    """
    settings, _ = at.find()
    messages, log, behind, fixed = anyio.run(view_of, settings)
    price, parts = anyio.run(evaluation.replay.make_price, settings), evaluation.laws.view_parts(messages, log)
    places = evaluation.laws.log_places(messages, log, parts, behind)
    # Each message of the view, and what is known of it.
    rows: list[dict[str, Any]] = []
    for place, part, message in zip(places, parts, messages, strict=True):
        rows.append({"position": len(rows), "message": place, "part": part, "role": message["role"]})
        rows[-1] |= {"tokens": price.message(message), "words": plain(" ".join(sc.message_text_parts(message)), 400)}
    name, tokens, budget = settings.session_id, fixed + sum(row["tokens"] for row in rows), settings.max_tokens
    document = {"session": name, "tokens": tokens, "fixed_tokens": fixed, "budget": budget, "messages": rows}
    if full:  # what could drive a terminal is written as escapes
        text = json.dumps(messages, indent=2, ensure_ascii=False)
        text = "".join(char if inert(char) == char else json.dumps(char)[1:-1] for char in text)
        return Result({**document, "messages": messages}, [text])
    title = f"View of {name}: {len(rows)} messages, {number(tokens)} of {number(budget)} tokens"
    title += f", {number(fixed)} of them of the system prompt and tools" if fixed else ""
    columns = {"#message": "message", "part": "part", "role": "role", "#tokens": "tokens", "first words": "words"}
    return Result(document, [table(title, columns, rows, wide="first words")])


# The commands of `/context`, by their table

# Figures that are counted from the opening on: those of a session that is only read say nothing of it.
_SINCE_OPENING = (
    *("activations", "activations_by_reason", "model_calls", "model_input_tokens", "model_cached_tokens"),
    *("model_output_tokens", "estimated_cost", "cache", "stand_ins_total", "refused_replies", "refused_input_tokens"),
    *("refused_output_tokens", "dropped_lines", "memories_dropped", "repairs", "elided_tokens"),
)


async def perform(settings: Settings, line: str, writes: bool) -> sc.CommandResult:
    """Return the result of a command. What covers the past goes on until the summaries are there."""
    async with opened_session(settings, read_only=not writes) as context:
        if not writes:
            await context.get_messages_for_request(token_budget=settings.max_tokens)
        first = result = await context.handle_command(line)
        while result.data.get("stand_ins") or not result.data.get("activated", True):  # it may get better
            if not (left := context.statistics().summaries_pending):
                break
            with progress("summaries", left) as update:
                while True:
                    with anyio.move_on_after(0.5):
                        await context.wait_idle()
                        break
                    update(steps=left - (left := context.statistics().summaries_pending))
            again = await context.handle_command(line)
            if not again.data.get("activated"):
                break
            result = again
        if result is not first:  # what both activations have done
            both = {name: result.data[name] for name in sc.ActivationReport._fields}
            both |= {"tokens_before": (before := first.data["tokens_before"]), "freed": before - both["tokens_after"]}
            done = activated(sc.ActivationReport(**both), context.statistics())
            result = replace(done, text=done.text + "".join(result.text.partition("\nTopic")[1:]))
        return result


_UNDONE = "give the program this budget too: with a smaller one its next request compacts again"


def _add(name: str, spec: Command) -> None:
    takes = re.sub(r"\[--.*?\] ", "", spec.usage).partition(" ")[2]

    def run(
        at: StoredSession,
        words: list[str] | None = None,
        project: Annotated[bool, typer.Option("--project", help="In all sessions of its project.")] = False,
        everywhere: Annotated[bool, typer.Option("--all", help="In all sessions of the store.")] = False,
    ) -> Result:
        if project and everywhere:
            raise InputError("--project and --all exclude each other; give one of them")
        settings, rest = at.find((words or []) if takes else None)
        line = " ".join([name, *["--all"] * everywhere, *["--project"] * project, *rest])
        result = anyio.run(perform, settings, line, spec.writes)
        if not result.ok:
            raise InputError(str(result.data["error"]))

        def in_shell(typed: re.Match[str]) -> str:  # what to type next ends the text of a command
            return output.shell_line(typed[1], settings.session_id, *typed[2].split(), store=settings.store)

        for figure in _SINCE_OPENING:
            result.data.get("statistics", {}).pop(figure, None)
        remarks = [_UNDONE] if name == "undo" and at.budget else []
        return Result(result.data, [re.sub(rf"{PREFIX} (\w+) (.*)\Z", in_shell, result.text)], remarks=remarks)

    run.__annotations__["words"] = Annotated[list[str] | None, argument(takes, f"As `{PREFIX} {name}` has it.")]
    example = shlex.join((name, "s1", *([spec.example] if spec.example else ()), "--store", "run.db"))
    run.__doc__ = f"{spec.about[0].upper()}{spec.about[1:]}.\n\nExamples:\n{example}"
    shown = [*signature(run).parameters.values()]
    kept = shown if name == "search" else shown[:2] if takes else shown[:1]
    run.__signature__ = Signature(kept)  # type: ignore[attr-defined]
    command(STORED, name)(run)


for _name in OF_ONE:
    _add(_name, COMMANDS[_name])


_OTHER_CLIENT = option("CLIENT", "claude-code, codex or opencode.", "--in", show_choices=False)


@command(STORED, "continue", hidden=True, context_settings={"ignore_unknown_options": True})
def continue_in(
    at: StoredSession,
    client: Annotated[Literal["claude-code", "codex", "opencode"], _OTHER_CLIENT],
    words: Annotated[list[str] | None, argument("-- OPTIONS", "Of the client.")] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Show the first prompt; start nothing.")] = False,
) -> Result:
    """Begin a session of another client with this view.

    The client starts in this folder, and the view is its first prompt, summaries included. With the plug-in of
    `install` and a proxy on this store the log itself goes on; else it stays as it is. Without a screen, as by `-p`,
    `exec` or `run`, the client reads the prompt from its standard input; else `ps` shows it as an argument.

    Examples:
        continue s1 --store run.db --in claude-code -- -p
    """
    from summarizing_context.contrib.proxy.dialects import first_prompt

    settings, rest = at.find(words or [])
    view, log, *_ = anyio.run(view_of, settings)
    if not log:
        raise InputError(f"SESSION: {settings.session_id} has no messages yet; continue one that has")
    prompt = first_prompt(settings.session_id, view, log)
    started, read = clients.start(client, rest, prompt)
    if read is None and (size := len(prompt.encode())) > clients.MAX_ARGUMENT:
        raise InputError(f"--budget: the view takes {size:,} bytes, too many for a prompt; try --budget 20k")
    document = {"session": settings.session_id, "client": client, "messages": len(log), "prompt": prompt}
    if dry_run:
        return Result({**document, "status": None}, [prompt])
    if shutil.which(started[0]) is None:
        raise InputError(f"--in: {started[0]} is not on the PATH; install it, or see the prompt with --dry-run")
    status = subprocess.run(started, input=read, check=False).returncode
    return Result({**document, "status": status}, [], status if status >= 0 else 128 - status)


_ABOUT = """List, export, import or delete the sessions of a store.

Examples:
    sessions export all --store run.db --out run.jsonl
    sessions import run.jsonl --store postgresql://agents@db/agents
"""
family = options.family("sessions", STORED, _ABOUT)


@command(family, name="list")
def list_sessions(place: Place) -> Result:
    """List all sessions of a store, the newest change first."""
    settings, rows = place.load(), []
    found = find_sessions(settings).values()
    for info in found:
        writer = "" if info.writer_pid is None else f"process {info.writer_pid} on {info.writer_host or 'this host'}"
        changed, project = info.updated_at[:16].replace("T", " "), plain(info.project or "", 20)
        named = Text("\n").join([Text(plain(info.session_id)), *([] if info.title is None else [dim(info.title)])])
        rows.append((named, project, info.messages, info.summaries, changed, writer))
    columns = ("session", "project", "#messages", "#summaries", "changed", "open in")
    shown = table(f"Sessions in {plain(shown_store(settings.store))}", columns, rows, wide="session", fold=True)
    shown.caption = "summaries: of segments, and merges of these" if found else "it holds no session yet"
    return Result({"store": shown_store(settings.store), "sessions": [asdict(info) for info in found]}, [shown])


@command(family, name="delete")
def delete_session(
    session: Annotated[str, argument("ID", "The session to delete.")], place: Place, yes: options.Yes = False
) -> Result:
    """Delete one session for good. In an SQLite file of more than 16 MB, remains of its text may stay until `purge`."""
    settings = place.load()
    info = chosen(find_sessions(settings), session, settings)
    output.confirm(f"Delete session {info.session_id} with its {info.messages:,} messages for good?", yes, "removed")

    async def delete(opened: SessionStore) -> bool:
        WATCHED.set(update)
        return await opened.delete_session(session)

    with progress("deleting", info.messages + info.summaries) as update:
        found = with_store(settings, delete, read_only=False)
    return Result({"deleted": session, "found": found}, [f"Deleted {session}."])


@command(family)
def purge(
    place: Place,
    days: Annotated[int | None, option("DAYS", "Sessions unchanged so long too.", "--older-than", min=1)] = None,
    yes: options.Yes = False,
) -> Result:
    """Remove for good what no session uses any longer, such as replaced logs; before that, what is old.

    Examples:
        sessions purge --store run.db --older-than 90 --yes
    """
    settings, deleted = place.load(), list[str]()
    until, known = datetime.now(UTC) - timedelta(days=min(days or 36_500, 36_500)), find_sessions(settings).values()
    old = [one for one in known if one.writer_pid is None and datetime.fromisoformat(one.updated_at) < until]
    named, undone = output.counted(len(old), "old session"), "Undone edits cannot be brought back after it."
    output.confirm(f"Remove {named}, and all that no session uses any longer? {undone}", yes, "removed")

    async def remove(opened: SessionStore) -> int:
        WATCHED.set(update)
        file = None if is_address(settings.store) else Path(settings.store)
        before = 0 if file is None else file.stat().st_size
        for info in await opened.sessions():
            if info in old:  # some may have gone on before the answer
                with suppress(sc.SessionInUseError):
                    await opened.delete_session(info.session_id)
                    deleted.append(info.session_id)
        return max(await opened.purge(), 0 if file is None else before - file.stat().st_size)

    with progress("purging", sum(one.messages + one.summaries for one in old) or None) as update:
        freed = with_store(settings, remove, read_only=False)
    named = output.counted(len(deleted), "old session")
    return Result({"deleted": deleted, "freed_bytes": freed}, [f"Removed {named}; freed {freed:,} bytes."])


@command(family, name="export")
def export_sessions(
    sessions: Annotated[list[str], argument("SESSION...|all", "The sessions.")],
    place: Place,
    out: Annotated[Path, options.path("FILE", "The new file, which only you can read.")],
) -> Result:
    """Write sessions as lines of JSON, for `sessions import`: messages, summaries, checkpoints, pins and memories.

    Messages that are damaged are left out and named, and so are checkpoints of logs that were replaced since.
    """
    settings = place.load()
    known = find_sessions(settings)
    infos = list(known.values()) if sessions == ["all"] else [chosen(known, name, settings) for name in sessions]
    kinds = ("messages", "summaries", "checkpoints", "memories")
    told: list[dict[str, Any]] = []

    async def write(opened: SessionStore) -> None:
        with open_private(out, new=True) as file, progress("sessions", len(infos)) as update:
            for info in infos:
                document, left_out = await export_session(opened, info)
                file.write(json.dumps(document).encode() + b"\n")
                told.append({"session": info.session_id, **{kind: len(document[kind]) for kind in kinds}, **left_out})
                update(info.session_id)

    if out.exists():
        raise InputError(f"{out} is there already; name a new file")
    try:
        with_store(settings, write)
    except BaseException:
        out.unlink(missing_ok=True)
        raise
    columns = {"session": "session", **{f"#{kind}": kind for kind in kinds}}
    shown = table(f"Written to {plain(out)}", columns, told, wide="session")
    damaged = [f"{plain(one['session'])} {one['damaged']}" for one in told if one["damaged"]]
    shown.caption = f"Damaged and left out: {'; '.join(damaged)}" if damaged else None
    return Result({"sessions": told}, [shown], Status.ENVIRONMENT if damaged else Status.OK)


@command(family, name="import")
def import_sessions(
    file: Annotated[Path, argument("FILE", "What `sessions export` wrote.", parser=options.read_path)], place: Place
) -> Result:
    """Put exported sessions into a store, which is made if needed. No summary is paid for again.

    A session that the store has already is continued where its messages are the first of those in the file, and
    refused where they are others.
    """
    settings, told, refused = place.load(), list[dict[str, Any]](), list[str]()

    async def read(opened: SessionStore) -> None:
        with file.open("rb") as lines, progress("bytes", file.stat().st_size) as update:
            for at, line in enumerate(lines, 1):
                try:
                    done = await import_session(opened, json.loads(line))
                    told.append(dict(zip(("session", "messages", "new"), done, strict=True)))
                except (OtherContentError, sc.SessionInUseError) as error:
                    refused.append(str(error))
                except (ValueError, KeyError, TypeError, AttributeError, sc.MessageError) as error:
                    why = "this is no whole session, and nothing from here on was imported; export it again, and import"
                    raise InputError(f"{plain(file)}:{at}: {why} that: what is there already is continued") from error
                update(output.counted(at, "session"), len(line))

    if not file.is_file():
        raise InputError(f"{plain(file)}: there is no such file; name one that `sessions export` wrote")
    with_store(settings, read, read_only=False)
    columns = {"session": "session", "#messages": "messages", "#new": "new"}
    shown = table(f"Imported into {plain(shown_store(settings.store))}", columns, told, wide="session")
    remarks = [plain(f"error: {'; '.join(refused)}")] if refused else []
    return Result({"sessions": told, "refused": refused}, [shown], Status.BAD_INPUT if refused else Status.OK, remarks)

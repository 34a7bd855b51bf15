"""`summarizing-context proxy watch`: the requests of a running proxy as they come, on a terminal or for a program."""

from __future__ import annotations

import json
import sys
import time
from collections import deque
from collections.abc import Callable, Mapping
from contextlib import nullcontext
from datetime import datetime
from typing import TYPE_CHECKING, Any

from summarizing_context.cli.output import dollars, number, plain, screen, table

if TYPE_CHECKING:
    from rich.console import Console, ConsoleOptions, RenderableType, RenderResult
    from rich.table import Table

Look = Callable[[int], dict[str, Any]]  # what the proxy tells, with the records after a number

_KEPT = 200  # records, more than a terminal has lines

_MOST_SESSIONS = 8

_PAUSE = 0.5  # seconds between two looks


def watch_lines(look: Look, *, once: bool, stop: list[int]) -> None:
    """Each request as one line of JSON, the oldest that the proxy remembers first, until `stop` has an element."""
    seen = 0
    while not stop:
        for record in look(seen)["records"]:
            seen = record["number"]
            sys.stdout.write(json.dumps(record) + "\n")
        sys.stdout.flush()
        if once:
            return
        time.sleep(_PAUSE)


def watch_screen(look: Look, *, once: bool, stop: list[int]) -> None:
    """Sessions and newest requests on the terminal, drawn anew at each change, until `stop` has an element."""
    from rich.live import Live

    console = screen()
    watched = Watched()
    watched.take(look(0))
    if once or not console.is_terminal:
        console.print(watched)
    if once:
        return
    with (
        Live(watched, console=console, screen=True, auto_refresh=False)
        if console.is_terminal
        else nullcontext() as live
    ):
        while not stop:
            if watched.take(look(watched.seen)):
                console.print(watched) if live is None else live.refresh()
            time.sleep(_PAUSE)


class Watched:
    """What was told so far, as a picture of the terminal's size."""

    def __init__(self) -> None:
        self.seen = 0  # number of the newest record
        self._told: dict[str, Any] = {}
        self._records: deque[dict[str, Any]] = deque(maxlen=_KEPT)

    def take(self, told: dict[str, Any]) -> bool:
        """Note what the proxy tells; whether anything of it is new."""
        records = told.pop("records")
        if told["requests"] < self.seen:  # another proxy stands in the place of the first
            self._records.clear()
            self.seen = 0
        self._records.extend(records)
        if records:
            self.seen = records[-1]["number"]
        is_new = bool(records) or told != self._told
        self._told = told
        return is_new

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        is_wide = options.max_width >= 100
        sessions = self._told["sessions"][:_MOST_SESSIONS]
        yield _title(self._told)
        yield ""
        total = len(self._told["sessions"])
        newest = f"Newest {_MOST_SESSIONS} of {total:,} sessions" if total > _MOST_SESSIONS else f"Sessions ({total:,})"
        yield sessions_table(newest, sessions, is_wide=is_wide)
        room = (options.height or console.height) - len(sessions) - 14
        yield _requests(list(self._records)[-max(3, room) :], is_wide)


def _title(told: Mapping[str, Any]) -> RenderableType:
    from rich.text import Text

    cost = sum(each["cost"] for each in told["sessions"])
    saved = sum(each["saved_tokens"] for each in told["sessions"])
    budget = "by the model's window" if told["budget"] is None else number(told["budget"])
    facts = [
        f"{told['requests']:,} requests",
        f"{told['passed_unchanged']:,} without a view",
        f"{told['failures']:,} failures of the proxy",
        f"{dollars(cost)} paid",
        f"{saved:,} tokens {'could be ' if told['shadow'] else ''}left out",
    ]
    head = "shadow: every request goes on as it came" if told["shadow"] else "proxy"
    about = f"budget {budget} · summaries {told['summarizer']}"
    return Text.assemble((head, "bold"), f" · {plain(about)}\n", " · ".join(facts))


def sessions_table(title: str, sessions: list[dict[str, Any]], *, is_wide: bool) -> Table:
    """What was sent, kept and paid, by session; where there is little room, without the model."""
    model = ["model"] if is_wide else []
    shown = table(
        title, "session", *model, "#requests", "#history", "#sent", "#activ.", "#cached", "#cost", wide="session"
    )
    for each in sessions:
        share = each["cache_read"] / each["input_tokens"] if each["input_tokens"] else 0
        figures = [number(each[name]) for name in ("requests", "tokens", "view_tokens", "activations")]
        named = [_name(each["session"], is_wide), *([plain(each["model"], 24)] if is_wide else [])]
        shown.add_row(*named, *figures, f"{share:.0%}", dollars(each["cost"]))
    return shown


def _name(session: str, is_wide: bool) -> str:
    """A session's name; where there is little room, without the client and with the beginning of each part."""
    return plain(session if is_wide else ":".join(part[:10] for part in session.split(":")[1:]), 80)


def _requests(records: list[dict[str, Any]], is_wide: bool) -> RenderableType:
    from rich.text import Text

    names = ("at", "session", "#history", "#sent", "#kept", "activation")
    shown = table("Requests", *names, *(("#own ms", "#status") if is_wide else ("#",)), "#cost", wide="session")
    for each in reversed(records):
        failed = not 200 <= each["status"] < 300
        status = Text(str(each["status"] or "none"), style="bold red" if failed else "green")
        kept = "–" if each["prefix_kept"] is None else f"{each['prefix_kept']:.0%}"
        reason = (each["activation"] or "").replace("_", " ") + (", again" if each["replayed"] else "")
        shown.add_row(
            datetime.fromtimestamp(each["at"]).strftime("%H:%M:%S"), _name(each["session"], is_wide),
            number(each["tokens"]), number(each["view_tokens"]), kept, Text(reason, style="yellow"),
            *([f"{each['own_ms']:.1f}"] if is_wide else []), status, dollars(each["cost"]),
        )  # fmt: skip
    return shown

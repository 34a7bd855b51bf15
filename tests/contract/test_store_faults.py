"""Files that are damaged, foreign, newer or full, and those only read: a typed error, and nothing lost."""

import os
import shutil
import stat
import threading
from contextlib import suppress
from pathlib import Path
from unittest.mock import Mock

import anyio
import pytest

from summarizing_context.errors import StoreCorruptError, StoreError, StoreFullError, StoreVersionError
from summarizing_context.stores import private_files
from summarizing_context.stores.sqlite.store import SqliteStore
from tests.contract.store_builders import (
    bytes_beside,
    entries,
    fill_disk,
    key,
    log_of,
    nothing,
    numbered,
    opened,
    sql,
    summary,
)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "folder" / "run.db"


async def written(path: Path, count: int = 3) -> None:
    """A store's file with one session of some messages, closed."""
    async with opened(path, "s") as store:
        await store.append("s", numbered(count), nothing)


async def assert_refused(path: Path, error: type[StoreError], *words: str) -> None:
    """Opening fails with this error, for reading as well, names the file, and changes not a byte."""
    before = bytes_beside(path)
    for read_only in (False, True):
        store = SqliteStore(path, read_only=read_only, busy_timeout=0.05)
        with pytest.raises(error) as raised:
            await store.open()
        assert all(word in str(raised.value) for word in (str(path), *words)), str(raised.value)
        await store.close()
    assert bytes_beside(path) == before


@pytest.mark.parametrize("journal", ["delete", "wal"])
async def test_the_database_of_another_program_is_refused(path, journal):
    """Also with what a program left that was killed; nothing comes to be beside that."""
    left = path.parent.with_name("left") / "run.db"
    for one in (path, left):
        one.parent.mkdir()
    with sql(path) as connection:
        connection.execute(f"pragma journal_mode = {journal}")
        connection.execute("create table theirs as select 1")
        await assert_refused(path, StoreCorruptError, "another program")
        for name in (there := {*os.listdir(path.parent)} & {"run.db", "run.db-wal"}):
            shutil.copy(path.with_name(name), left.parent)
    for one in (path, left):
        await assert_refused(one, StoreCorruptError, "another program")
    assert set(os.listdir(left.parent)) == there


def overwrite(path: Path, start: int, content: bytes) -> None:
    with path.open("r+b") as file:
        file.seek(start)
        file.write(content)


FOREIGN, DAMAGED = ("not an SQLite file", "name another file"), ("damaged", "backup")


@pytest.mark.parametrize(
    ("damage", "words"),
    [
        *(
            (content, FOREIGN)
            for content in (b"x", b"not a database\n" * 9, os.urandom(5000), b"SQLite format 3\0" * 300)
        ),
        *(
            (lambda path, part=part: os.truncate(path, int(path.stat().st_size * part)), DAMAGED)
            for part in (0.9, 0.5, 0.1)
        ),
        (lambda path: overwrite(path, path.stat().st_size // 2 // 4096 * 4096, b"\xff" * 8192), DAMAGED),
        (lambda path: overwrite(path, 16, b"\x13\x37\x00\x01"), DAMAGED),
    ],
)
async def test_a_file_that_is_damaged_or_not_sqlite_is_refused(path, damage, words):
    await written(path, 2000)
    path.write_bytes(damage) if isinstance(damage, bytes) else damage(path)
    await assert_refused(path, StoreCorruptError, *words)


async def test_a_log_with_a_hole_is_damage(path):
    await written(path)
    with sql(path) as connection:
        connection.execute("delete from entries where position = 1")
    async with opened(path) as store:
        with pytest.raises(StoreCorruptError, match="damaged"):
            await store.load("s")


@pytest.mark.parametrize("in_log", [False, True])
async def test_a_file_of_another_version_is_refused_with_the_advice_what_to_do(path, in_log, monkeypatch):
    """Also where another process makes it of that version meanwhile."""
    await written(path)
    with sql(path) as connection:
        connection.execute("pragma user_version = 99")
        if in_log:  # the header in the file still tells the old version
            store = SqliteStore(path)
            with pytest.raises(StoreVersionError, match=r"is 99 .*use the version"):
                await store.open()
            return
    await assert_refused(path, StoreVersionError, "99", "use the version")
    monkeypatch.setattr("summarizing_context.stores.sqlite.store._checked_version", lambda *_: 0)
    with pytest.raises(StoreVersionError, match="99"):
        await SqliteStore(path).open()


async def test_closing_does_not_wait_for_a_locked_file(path):
    async with opened(path, "s", busy_timeout=60.0) as store:
        with sql(path) as other:
            other.execute("begin immediate")
            with anyio.fail_after(30):
                await store.close()
    async with opened(path, "s"):
        pass
    with sql(path) as other:  # else the list asks of each closed session whether its writer lives
        assert other.execute("select writer from sessions").fetchall() == [(None,)]


async def test_a_full_disk_fails_the_write_whole_and_passes_when_there_is_space(path, monkeypatch):
    called: list[int] = []
    fill_disk(monkeypatch, 150)  # some are taken by the index, sooner or later
    async with opened(path, "s", "filler") as store:
        await store.append("filler", entries(*["x" * 1000] * 200), nothing)
        await store.append("s", entries("kept"), lambda: called.append(0))
        with pytest.raises(StoreFullError, match="free some and call again"):
            await store.append("s", entries(*["y" * 3000] * 120), lambda: called.append(1))
        assert await log_of(store) == ["kept"]
        await store.append("s", entries("small"), lambda: called.append(2))
        await store.delete_session("filler")
        await store.append("s", entries(*["y" * 3000] * 30), lambda: called.append(3))
        assert await log_of(store) == ["kept", "small", *["y" * 3000] * 30]
    assert called == [0, 2, 3]


def beside(path: Path) -> list[Path]:
    """The file, and those that SQLite keeps beside it while it is open."""
    return [Path(f"{path}{suffix}") for suffix in ("", "-wal", "-shm")]


async def test_files_and_folders_are_private_whatever_the_umask(tmp_path):
    """What others could read becomes private too."""
    path = tmp_path / "a" / "b" / "run.db"
    old = os.umask(0)
    try:
        async with opened(path, "s") as store:
            await store.append("s", entries("x"), nothing)
            modes = {one.name: stat.S_IMODE(one.stat().st_mode) for one in path.parent.iterdir()}
            folders = [stat.S_IMODE(one.stat().st_mode) for one in (path.parent, path.parent.parent)]
            left = {file: file.read_bytes() for file in beside(path)}
    finally:
        os.umask(old)
    assert len(modes) == 4  # the file, its log, its shared memory and one claim
    assert (set(modes.values()), folders) == ({0o600}, [0o700, 0o700])
    for file, content in left.items():  # as a process that was killed leaves them
        file.write_bytes(content)
        file.chmod(0o664)
    async with opened(path, "s") as store:
        assert {stat.S_IMODE(file.stat().st_mode) for file in beside(path)} == {0o600}
        assert await log_of(store) == ["x"]


def test_one_token_is_made_where_another_starts_meanwhile(tmp_path, monkeypatch):
    made: list[str] = []

    def link(draft: Path, path: Path) -> None:
        monkeypatch.undo()
        made.append(private_files.kept_token(path))
        os.link(draft, path)

    monkeypatch.setattr(os, "link", link)
    assert [private_files.kept_token(tmp_path / "token")] == made
    assert os.listdir(tmp_path) == ["token"]


async def test_what_another_program_has_beside_the_file_stays_as_it_is(path):
    """A lock, and what a link names."""
    await written(path)
    lock, other = path.with_name(f"{path.name}.backup.lock"), path.with_name("other")
    lock.touch()
    other.touch()
    other.chmod(0o644)
    await written(path)
    assert lock.exists()
    os.symlink(other, f"{path}-shm")
    with suppress(StoreError):
        await written(path)
    assert stat.S_IMODE(other.stat().st_mode) == 0o644


def replace(path: Path) -> None:
    other = path.with_name("other")
    other.write_bytes(path.read_bytes())
    other.replace(path)


@pytest.mark.parametrize("suffix", ["", "-wal", "-shm"])
@pytest.mark.parametrize("harm", [Path.unlink, replace])
async def test_nothing_is_acknowledged_once_a_file_of_the_store_is_gone(path, harm, suffix):
    async with opened(path, "s") as store:
        await store.append("s", entries("kept"), nothing)
        harm(Path(f"{path}{suffix}"))
        acknowledged: list[bool] = []
        for text in ("lost", "lost too"):
            with pytest.raises(StoreError, match="open it again") as raised:
                await store.append("s", entries(text), lambda: acknowledged.append(True))
            assert str(path) in str(raised.value)
        with pytest.raises(StoreError, match="open it again"):
            await store.save_summary("s", key(1), summary("lost"))
        assert acknowledged == []
        if harm is Path.unlink and not suffix:  # a file that is made again is another one
            async with opened(path, "b") as other:
                await other.append("b", entries("kept"), nothing)
                assert await log_of(other, "b") == ["kept"]


async def test_what_no_store_expects_is_told_and_it_goes_on(path, monkeypatch):
    store = SqliteStore(path)
    with monkeypatch.context() as patched:
        patched.setattr(threading.Thread, "start", Mock(side_effect=RuntimeError("can't start new thread")))
        with pytest.raises(StoreError, match="thread"):
            await store.open()
        await store.close()
    async with opened(path, "s") as store:
        with pytest.raises(StoreError, match="ZeroDivisionError") as caught:
            await store.submit("divide", lambda connection: 1 / 0)
        assert isinstance(caught.value.__cause__, ZeroDivisionError)
        await store.append("s", entries("kept"), nothing)

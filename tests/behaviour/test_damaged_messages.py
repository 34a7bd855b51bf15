"""A byte of a stored message that became another is noticed, without a word of the message in the error."""

import json
from pathlib import Path

import anyio
import pytest

from summarizing_context import Settings, open_context
from summarizing_context.cli import main
from summarizing_context.errors import DamagedMessageError
from tests.behaviour.contexts import fill
from tests.contract.store_builders import sql
from tests.laws.builders import Message, user


def settings(path: Path) -> Settings:
    return Settings(store=path, session_id="s1", token_counter="estimate")


async def filled(path: Path) -> list[Message]:
    async with open_context(settings(path)) as context:
        await fill(context, (user(f"SECRET m{at} " + "word " * 30) for at in range(50)))
        return await context.get_messages()


async def stored(path: Path) -> list[Message]:
    async with open_context(settings(path), read_only=True) as context:
        return await context.get_messages()


def exported(path: Path) -> list[Message]:
    (line,) = path.read_text().splitlines()
    return [message for message, _ in json.loads(line)["messages"]]


def damage_message(path: Path, seq: int) -> None:
    """Change a letter of one stored message."""
    with sql(path) as file:
        (data,) = file.execute("select message from entries where position = ?", (seq,)).fetchone()
        file.execute("update entries set message = ? where position = ?", (data.replace(b"SECRET", b"SECRES"), seq))


def chain(error: BaseException | None) -> str:
    """All that an error and its causes hold."""
    if error is None:
        return ""
    held = repr(error) + repr(vars(error)) + str(getattr(error, "doc", "")) + str(getattr(error, "object", ""))
    return held + chain(error.__cause__ or error.__context__)


@pytest.mark.parametrize("read_only", [False, True])
async def test_the_error_names_session_and_message_and_the_way_out(tmp_path: Path, read_only: bool):
    await filled(tmp_path / "a.db")
    damage_message(tmp_path / "a.db", 17)
    with pytest.raises(DamagedMessageError, match=r"message 17 of session 's1' is damaged.*sessions export") as raised:
        async with open_context(settings(tmp_path / "a.db"), read_only=read_only):
            pass
    assert (raised.value.session_id, raised.value.seq) == ("s1", 17)
    assert "SECRE" not in chain(raised.value)


def test_all_other_messages_are_exported_and_imported_again(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    log = anyio.run(filled, tmp_path / "a.db")
    damage_message(tmp_path / "a.db", 17)
    out, store = str(tmp_path / "s1.jsonl"), str(tmp_path / "a.db")
    assert main(["sessions", "export", "s1", "--store", store, "--out", out]) == 4
    assert "Damaged and left out: s1 [17]" in " ".join(capsys.readouterr().out.split())
    assert (tmp_path / "s1.jsonl").stat().st_mode & 0o777 == 0o600
    rest = [*log[:17], *log[18:]]
    assert exported(tmp_path / "s1.jsonl") == rest
    assert main(["sessions", "import", out, "--store", str(tmp_path / "b.db")]) == 0
    assert anyio.run(stored, tmp_path / "b.db") == rest


def test_an_undamaged_session_is_exported_whole_into_a_new_file_only(tmp_path: Path):
    log = anyio.run(filled, tmp_path / "a.db")
    arguments = ["--store", str(tmp_path / "a.db"), "--out", str(tmp_path / "s1.jsonl")]
    assert main(["sessions", "export", "s1", *arguments]) == 0
    assert exported(tmp_path / "s1.jsonl") == log
    assert main(["sessions", "export", "s1", *arguments]) == 2

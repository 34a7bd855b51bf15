"""Rules of a session are read once, kept beside its log, and read again from files of earlier versions."""

from __future__ import annotations

from pathlib import Path

import pytest

from summarizing_context import Settings, SummaryJob, open_context
from summarizing_context.extraction.rules import CueRules
from tests.contract.store_builders import sql
from tests.laws.builders import Message, assistant, count, session, user

pytestmark = pytest.mark.anyio

LOG = [user("Build the shop."), assistant("ok"), user("Never push to main."), assistant("ok"), *session(3, 60, size=40)]
RULE = '- message 2: "Never push to main."'


class Silent:
    """A summarizer that counts what it is asked for."""

    recipe = "silent"

    def __init__(self) -> None:
        self.calls = 0

    async def summarize(self, job: SummaryJob) -> str:
        self.calls += 1
        return f"part {self.calls} is done"  # which is no word on rules, so that cues tell them


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The texts whose rules are read."""
    texts: list[str] = []
    read = CueRules.rules

    def counting(self: CueRules, human_texts: list[str]) -> object:
        texts.extend(human_texts)
        return read(self, human_texts)

    monkeypatch.setattr(CueRules, "rules", counting)
    return texts


def settings(path: Path) -> Settings:
    return Settings(
        store=path,
        session_id="s",
        max_tokens=2_000,
        segment_min=100,
        segment_target=200,
        segment_max=400,
        summary_max_tokens=22,
        checkpoint_interval_messages=None,
        ledger_share=0,
    )


def block(view: list[Message]) -> str:
    return next(str(row["content"]) for row in view if str(row["content"]).startswith("<standing_rules>"))


async def shown(path: Path, *rows: Message, summarizer: Silent) -> str:
    async with open_context(settings(path), summarizer=summarizer, count_tokens=count) as context:
        for row in rows:
            await context.add_message(row)
        await context.wait_idle(60)
        await context.compact()
        return block(await context.get_messages_for_request())


def rows_of(path: Path) -> list[tuple[int, str]]:
    with sql(path) as connection:
        return connection.execute("select position, version from rules order by position").fetchall()


async def test_a_session_that_is_opened_again_reads_no_rule_twice(tmp_path: Path, asked: list[str]):
    path = tmp_path / "run.db"
    assert RULE in await shown(path, *LOG, summarizer=Silent())
    humans = [at for at, row in enumerate(LOG) if row["role"] == "user"]
    assert [position for position, _ in rows_of(path)] == humans
    assert {version for _, version in rows_of(path)} == {CueRules().version}
    asked.clear()
    assert RULE in await shown(path, summarizer=Silent())
    assert asked == []


async def test_a_reader_of_a_file_without_rules_reads_the_log_and_writes_nothing(tmp_path: Path):
    path = tmp_path / "run.db"
    await shown(path, *LOG, summarizer=Silent())
    with sql(path) as connection:
        connection.execute("delete from rules")
    async with open_context(settings(path), count_tokens=count, read_only=True) as context:
        assert RULE in block(await context.get_messages_for_request())
    assert rows_of(path) == []

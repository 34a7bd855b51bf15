"""Cassettes: replaying, recording, resuming, caps, broken files, secrets, several recorders of one file."""

import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any
from unittest.mock import AsyncMock

import anyio
import anyio.lowlevel
import pytest

from summarizing_context.errors import CassetteError, CassetteMissError, SummarizerError, SummarizerRefused
from summarizing_context.evaluation.cassettes import Cassette, Mode, RecordedModel, Reply, Request, scrubbed
from summarizing_context.messages.tokens import estimate_text
from summarizing_context.summarizers.base import SummaryJob, SummaryReply
from summarizing_context.summarizers.sdk import Fault
from summarizing_context.testing import ScriptedSummarizer
from tests.privacy import open_to_others

LONG = "a line of a long view\n" * 40
ASKED = Request(kind="reader", maker="openai/m", system="Answer.", user=(LONG, "Which port?"), max_tokens=50)


def answering(answer: Any) -> AsyncMock:
    """A model with one answer."""

    async def answered(request: Request) -> Any:
        await anyio.lowlevel.checkpoint()
        return answer

    return AsyncMock(side_effect=answer if isinstance(answer, Exception) else answered)


def opened(path: Path, mode: Mode = "record") -> Cassette:
    return Cassette(path / "c.jsonl", mode, secrets=["words-that-open"])


async def test_a_request_is_sent_once_and_replayed_without_a_call_and_a_miss_tells_none_of_its_words(tmp_path: Path):
    model = answering(SummaryReply("8080", input_tokens=90, output_tokens=2, cached_tokens=30))
    with opened(tmp_path) as cassette:
        async with anyio.create_task_group() as tasks:
            for _ in range(5):  # also when asked at once
                tasks.start_soon(cassette.reply, ASKED, model)
        await cassette.reply(replace(ASKED, replicate=1), model)
        with opened(tmp_path) as other:  # two recorders of one file keep what both recorded
            await other.reply(replace(ASKED, replicate=2), model)
    with opened(tmp_path, "replay") as cassette:
        assert await cassette.reply(ASKED, model) == Reply("8080", 90, 2, 30)
        assert (model.await_count, cassette.path.read_bytes().count(b"\n")) == (3, 3)
        assert (cassette.spent["openai/m"].calls, cassette.spent["openai/m"].recorded) == (0, 1)
        with pytest.raises(CassetteMissError, match="reader request") as e:
            await cassette.reply(replace(ASKED, user=(LONG, "Which host?")), model)
        assert "Which" not in str(e.value)
        with pytest.raises(CassetteMissError):
            cassette.check()


async def test_a_failed_call_is_not_recorded_and_a_refusal_is(tmp_path: Path):
    with opened(tmp_path) as cassette:
        with pytest.raises(SummarizerError):
            await cassette.reply(ASKED, answering(SummarizerError()))
        with pytest.raises(CassetteError, match="1 requests were not recorded"):
            cassette.check()
        assert (cassette.spent["openai/m"].calls, cassette.spent["openai/m"].input_tokens) == (1, 0)
        assert (await cassette.reply(ASKED, answering(SummarizerRefused("no")))).fault == "no"
        estimate = estimate_text(ASKED.system) + estimate_text("\n\n".join(ASKED.user))
        assert (cassette.spent["openai/m"].calls, cassette.spent["openai/m"].input_tokens) == (2, estimate)
        cassette.check()
    assert (await opened(tmp_path, "replay").reply(ASKED, answering("8080"))).fault == "no"


async def test_the_first_reason_to_stop_is_told_whatever_is_refused_later(tmp_path: Path):
    summarizer: Any = ScriptedSummarizer([SummarizerRefused("no")])  # what is used of a model
    missed = SummaryJob("segment", "Sum up.", "New.", 50, 0, 0, 1, 9, "00")
    with opened(tmp_path) as cassette:
        with pytest.raises(SummarizerRefused, match="no"):
            await RecordedModel(summarizer, cassette, is_needed=True).summarize(replace(missed, content="Old."))
        with pytest.raises(CassetteError, match="asks again"):
            cassette.check()
    with opened(tmp_path, "replay") as cassette:
        for content in ("New.", "Old."):
            with pytest.raises(SummarizerRefused):
                await RecordedModel(summarizer, cassette, is_needed=True).summarize(replace(missed, content=content))
        with pytest.raises(CassetteMissError):
            cassette.check()


async def test_a_recording_ends_where_no_model_is_reached_and_goes_on_where_one_was(tmp_path: Path):
    nowhere, model = answering(SummarizerError(Fault.CONNECTION)), answering("8080")
    for answered in (0, 1):
        with opened(tmp_path / str(answered)) as cassette:
            for number in range(answered):
                await cassette.reply(replace(ASKED, replicate=10 + number), model)
            for number in range(5):
                with pytest.raises((SummarizerError, CassetteError)):
                    await cassette.reply(replace(ASKED, replicate=number), nowhere)
            said = "5 requests were not recorded" if answered else r"no request was answered \(.*base_url.*mend that"
            with pytest.raises(CassetteError, match=said):
                cassette.check()
    assert nowhere.await_count == 3 + 5


async def test_where_nothing_can_be_written_nothing_is_paid_for_and_on_a_full_disk_replies_stay_whole(tmp_path: Path):
    (tmp_path / "file").write_text("", encoding="utf8")
    for wrong in (tmp_path, tmp_path / "file" / "c.jsonl", tmp_path / ("x" * 300)):
        with pytest.raises(CassetteError, match="written here"):
            Cassette(wrong, "record")
    resource, path = pytest.importorskip("resource"), tmp_path / "c.jsonl"
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    with pytest.raises(CassetteError, match="cannot be written"), opened(tmp_path) as cassette:  # noqa: PT012
        resource.setrlimit(resource.RLIMIT_FSIZE, (300, limits[1]))
        try:
            for number in range(9):
                await cassette.reply(
                    replace(ASKED, replicate=number), answering("a reply of forty characters, or so it is")
                )
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    assert Cassette(path).calls == 0  # what it has is read
    assert 1 <= path.read_bytes().count(b"\n") < 9
    assert path.read_bytes().endswith(b"\n")


async def test_an_empty_line_is_passed_over_and_one_that_is_torn_is_named(tmp_path: Path):
    with opened(tmp_path) as cassette:
        await cassette.reply(ASKED, answering("8080"))
    whole = cassette.path.read_bytes()
    cassette.path.write_bytes(b"\n" + whole)
    assert (await opened(tmp_path, "replay").reply(ASKED, answering("no"))).text == "8080"
    cassette.path.write_bytes(whole + whole[:20])
    with pytest.raises(
        CassetteError, match=r"c.jsonl:2: not a line .* take it out, or bring the file back: the same command asks"
    ):
        opened(tmp_path, "replay")


@pytest.mark.parametrize(
    "secret",
    [
        "sk-ant-api03-abcdefghijklmnop",
        "ghp_abcdefghijklmnop1234",
        "AKIAABCDEFGHIJKLMNOP",
        "eyJhbGciOiJI.eyJzdWIiOiIx.abc",
        "Authorization: Bearer abc123def456ghi",
        '"api_key": "0123456789abcdef"',
        "https://user:hunter2@example.com",
        "words-that-open",
        "-----BEGIN RSA PRIVATE KEY-----\nMIIE\n-----END RSA PRIVATE KEY-----",
    ],
)
async def test_secrets_are_not_kept(tmp_path: Path, secret: str):
    with opened(tmp_path) as cassette:
        await cassette.reply(replace(ASKED, user=(f"He said {secret} here.",)), answering(f"It is {secret}."))
    assert open_to_others(tmp_path) == []
    content = (tmp_path / "c.jsonl").read_bytes()
    value = secret.split()[-1].split('"')[-2 if secret.startswith('"') else -1].removeprefix("https://user:")
    assert value.split("@")[0].encode() not in content
    assert content.count(b"[secret]") == 1


LETTERS = "abcdefghijklmnop12"
BY_NAME = [
    *("sk-", "pk-", "rk-", "ghp_", "gho_", "ghu_", "ghs_", "ghr_", "github_pat_", "glpat-", "xoxb-", "hf_"),
    *("Bearer ", "BASIC ", "ba\u017fic ", "bas\u0131c ", "author\u0131zation: ", "x-ap\u0131-\u212aey=", "PASSWORD="),
    *("Auth-Token: ", "acce\u017fs_token=", "client_\u017fecret: ", "Secret-Key="),
]
ALONE = [*(name + LETTERS for name in BY_NAME), "AKIA" + "B" * 16, "ASIA" + "B" * 16, f"AIza{LETTERS * 2}"]


@pytest.mark.parametrize("secret", ALONE, ids=ascii)
def test_a_secret_is_found_by_its_name_alone_in_letters_of_any_case(secret: str):
    """Letters that only ignore case: a long s, an i without a dot, the sign of kelvin."""
    assert secret[-8:] not in scrubbed(f"so {secret} it is")


HOSTILE = [
    *("password:", "eyJ-", "password:a,1", "password= ", "password:'", "password\t", "api-", "api key"),
    *("bearer ", "basic\t", "a-", "x://u:", "x://u:p", "sk-", "eyJabcdefgh.", "AIza", "-----BEGIN ", "-----END A"),
]
SCRUB = f"""
import resource
resource.setrlimit(resource.RLIMIT_CPU, (60, 60))  # read from each start to the end, one of them would take an hour
from summarizing_context.evaluation.cassettes import scrubbed
for piece in {HOSTILE!r}:
    scrubbed((piece * 100_000)[:100_000])
"""


def test_what_is_no_secret_stays_and_a_large_hostile_text_is_read_once():
    """In a process that ends when it has used too much of the processor; what else the machine does is not counted."""
    for text in ("password: see the note", "the bearer of bad news", "task-management-of-things", "a\udc80"):
        assert scrubbed(text) == text.replace("\udc80", "\ufffd")
    pytest.importorskip("resource")
    assert subprocess.run([sys.executable, "-c", SCRUB], check=False).returncode == 0

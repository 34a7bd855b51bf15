"""What a model answers: failures are told once and end paid calls; what it invents is dropped."""

import logging
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import anyio
import httpx
import pytest

from summarizing_context import Settings, SummarizerError, SummarizingContext, SummaryJob, SummaryReply, open_context
from summarizing_context.cli import main
from summarizing_context.contrib.inspector import inspector_app
from summarizing_context.testing import ScriptedSummarizer, default_summary
from tests.behaviour import contexts
from tests.behaviour.contexts import begun, said
from tests.laws.builders import assistant, user
from tests.providers.serve import serving_apart
from tests.providers.server import Answer, ProviderServer
from tests.talk import Talk

KEY, MODEL, SECRET = "sk-secret-0123456789", "model-of-the-test", "launch-code-7431"
SMALL: dict[str, Any] = {"max_tokens": 2_000, "segment_min": 200, "segment_target": 400, "segment_max": 800}
SMALL |= {"token_counter": "estimate", "idle_after": "never"}
REFUSED = "the provider refuses the key"


async def fill(context: SummarizingContext, last: int = 60, first: int = 0) -> None:
    parts = (" ".join(f"step{at} looked at part {n} of the build" for n in range(20)) for at in range(first, last))
    log = (said(at, f"[{at}] {SECRET} {words}.") for at, words in enumerate(parts, first))
    await contexts.fill(context, log, every=3)


def warnings(caplog: pytest.LogCaptureFixture) -> list[str]:
    ours = [one for one in caplog.records if one.name.startswith("summarizing_context")]
    return [one.getMessage() for one in ours if one.levelno >= logging.WARNING]


async def until(found: Callable[[], bool]) -> None:
    with anyio.fail_after(60):
        while not found():  # noqa: ASYNC110 - what a summarizer does in the background
            await anyio.sleep(0.01)


def model_of(reply: Callable[[SummaryJob], Any]) -> ScriptedSummarizer:
    """A model that answers as `reply` says, and finds no rules."""
    return ScriptedSummarizer(lambda job: "none" if job.kind == "rules" else reply(job), recipe="model/of-the-test")


def on(server: ProviderServer, summarizer: str = "openai", **given: Any) -> Settings:
    """Settings of a model at this server."""
    base_url = f"{server.root}/v1" if summarizer == "openai" else server.root
    return Settings(summarizer=summarizer, model=MODEL, base_url=base_url, api_key=KEY, **SMALL, **given)


@pytest.mark.parametrize("status", [401, 402, 403, 404])
@pytest.mark.parametrize("summarizer", ["openai", "anthropic"])
async def test_a_wrong_key_or_model_is_one_warning_and_ends_the_calls(caplog, tmp_path, summarizer, status):
    with serving_apart(lambda _: Answer(status)) as one:
        async with open_context(on(one, summarizer, store=tmp_path / "run.db", concurrency=1)) as context:
            await fill(context, 30)
            assert await context.wait_idle(60) is False, "all are missing"
            figures = context.statistics()
        assert len(one.requests) <= 2, "a summary, and standing rules at the same time"
        (warning,) = warnings(caplog)
        parts = (one.root.removeprefix("http://"), MODEL, str(status), "check")
        assert [part for part in parts if part not in warning] == []
        assert not any(secret in caplog.text for secret in (KEY, SECRET))
    assert (figures.breaker, figures.summaries_pending > 0, "check" in str(figures.last_error)) == ("open", True, True)


async def test_another_process_sees_the_last_error_and_when_it_happened(capsys, monkeypatch, tmp_path):
    monkeypatch.setenv("COLUMNS", "300")
    store = tmp_path / "run.db"
    with serving_apart(lambda _: Answer(401)) as one:
        settings = on(one, store=store, session_id="s1")
        async with open_context(settings) as context:
            await fill(context)
            await context.wait_idle(60)
            assert REFUSED in (await context.handle_command("status")).text
            async with open_context(settings, read_only=True) as reader:
                figures, looked = reader.statistics(), (await reader.handle_command("status")).text
    assert all(part in text for text in (figures.last_error, looked) for part in (MODEL, REFUSED))
    assert (figures.last_error_at in looked, figures.summaries_failed > 0) == (True, True)
    inspector = httpx.ASGITransport(app=inspector_app(store, settings=settings))
    async with httpx.AsyncClient(transport=inspector, base_url="http://127.0.0.1:8378") as client:
        page = (await client.get("/api/session", params={"id": "s1"})).json()
    assert (REFUSED in page["failure"], page["failed"]) == (True, figures.summaries_failed)
    assert await anyio.to_thread.run_sync(main, ["status", "s1", "--store", str(store)]) == 0
    shown = capsys.readouterr().out
    assert all(part in shown for part in (REFUSED, f"{figures.summaries_failed} failed"))


async def test_an_outage_is_warned_of_once_and_again_only_after_a_recovery(caplog: pytest.LogCaptureFixture):
    is_down = True

    def reply(job: SummaryJob) -> Any:
        return SummarizerError("down") if is_down else default_summary(job)

    settings, model = Settings(**SMALL, breaker_failures=1, breaker_cooldown=0.01, attempts=1), model_of(reply)
    async with open_context(settings, summarizer=model) as context:
        await fill(context)
        await until(lambda: len(model.jobs) > 10)
        assert len(warnings(caplog)) == 1
        is_down = False
        await until(lambda: context.statistics().summaries_pending == 0)
        assert await context.wait_idle(60)
        is_down = True
        await fill(context, 90, first=60)
        await until(lambda: len(warnings(caplog)) == 2)


async def test_replies_that_make_things_up_stop_the_calls():
    invented = "## Done\n- /srv/no/such/file.py:4711 was deployed to 10.9.8.7 with `--no-such-flag=99`."
    model = model_of(lambda job: invented)
    async with open_context(Settings(**SMALL, breaker_cooldown=3_600, concurrency=4), summarizer=model) as context:
        await fill(context, 150)
        assert await context.wait_idle(60) is False
        figures = context.statistics()
    assert (figures.breaker, figures.segments > 30, figures.refused_replies > 0) == ("open", True, True)
    assert len([job for job in model.jobs if job.kind != "rules"]) <= 4 * 2 + 4


async def test_one_content_that_is_refused_again_and_again_stops_nothing(caplog: pytest.LogCaptureFixture):
    model = model_of(lambda job: "" if "[4]" in job.content else default_summary(job))
    async with open_context(Settings(**SMALL, breaker_cooldown=0), summarizer=model) as context:
        await fill(context)
        await until(lambda: sum("[4]" in job.content for job in model.jobs) >= 8)
        assert await context.wait_idle(0.2) is False, "it is missing"
        assert (context.statistics().breaker, context.statistics().summaries_pending > 0) == ("closed", True)
    assert warnings(caplog) == []


async def test_a_reached_cap_is_warned_of_once_views_go_on_and_waiting_says_what_is_missing(caplog, tmp_path):
    model = model_of(default_summary)
    settings = Settings(**SMALL, store=tmp_path / "run.db", max_calls_per_hour=5)
    async with open_context(settings, summarizer=model) as context:
        await fill(context, 100)
        assert await context.wait_idle(60) is False
        told = (await context.handle_command("status")).text
        async with open_context(settings, read_only=True) as reader:
            elsewhere = reader.statistics().last_error
        assert (len(model.jobs), context.statistics().stand_ins > 0, "reached" in told) == (5, True, True)
    (warning,) = [one for one in warnings(caplog) if "reached" in one]
    assert all("max_calls_per_hour = 5" in text for text in (warning, elsewhere))
    async with open_context(replace(settings, max_calls_per_hour=None), summarizer=model) as context:
        assert await context.wait_idle(60), "nothing is missing once it may go on"
        assert context.statistics().summaries_pending == 0 < len(model.jobs) - 5
    assert Settings.from_env(environ={"SUMMARIZING_CONTEXT_MAX_CALLS_PER_HOUR": "none"}).max_calls_per_hour is None


async def test_calls_that_fail_and_are_tried_again_count_for_the_cap():
    """Two or three jobs fail at first and wait before they try again: there is room for one of them alone."""
    model = ScriptedSummarizer([ConnectionError("down")] * 100)
    tries = {"attempts": 5, "breaker_failures": 1_000, "concurrency": 2, "max_calls_per_hour": 4}
    log = Talk().turns(60)
    async with begun(log, of=Settings, max_tokens=4_000, start_at=0.0, summarizer=model, **tries) as context:
        await context.get_messages_for_request()
        await context.wait_idle(20)
        assert (len(model.jobs), context.statistics().cap_reached) == (4, True)


# What a model writes down as fact stands in what it read: inventions are dropped, honest ways of writing stay.


RECORD = """Fix src/app/parser.py at line 482, never push. It took 1198 ms and 12288 bytes, 85.4 % of 1,234,567 rows.
See https://example.com/a?b=1 and HAT-215, commit 3f2a9c1d77e0aa, python 3.11.2, on 2026-03-09T14:30:05Z in Berlin.
The staging port is 6543 and DEBUG=false; he said "we can't ship on Friday". {"cmd":"pytest -q\\ntests/test_x.py"}.
The function parse_header calls getUserName, then os.Stat; it was read, written and tested. GET /users/42/posts is 200.
In docs/straße.md, schließe_datei.py, GROSS_WEIß_MAX; 修复了src/配置_v2.yaml和файл_конфиг.py, src/cấu_hình.py.
It runs on node 18.17.8, and 12,345,678 lines of ==== or #### went by.
"""
FILLER = " ".join("The work went on and it was looked at again, calmly and with care." for _ in range(60))
KEPT = "- The parser was repaired and all of the checks went through afterwards."

HONEST = [
    "parser.py, app/parser.py and `./src/app/parser.py:482`, lines 482-482",
    "it took 1,198 ms, about 1,200 ms, 1.2 s, 12 KB, 85%, ~1.2M rows",
    "es dauerte 1.198 ms, 85,4 % von 1.234.567 Zeilen, am 9. März 2026 um 14:30",
    "1198ミリ秒かかった。ポートは６５４３、2026年3月9日",
    "المنفذ ٦٥٤٣",
    "March 9, 2026; 9 Mar; on 9 March 2026 at 2:30 pm",
    "ticket #215, hat-215, HAT 215, commit 3f2a9c1, Python 3.11, v3.11.2, 3.11.x",
    '“we can’t ship on Friday”, "We can\'t ship..." he said',
    "`pytest -q tests/test_x.py`, parse_header(), `getUserName`, os.Stat, `GET /users/<id>/posts`",
    "read/write/test, and/or, e.g. this one, step 7 of 12, 24/7, a 3-step plan",
    "DEBUG=false, port 6543, https://example.com/a",
    "node 18.17, marks such as `####`, `----` and `✅✅✅✅`",
    "docs/straße.md, `schließe_datei.py`, GROSS_WEIß_MAX, src/配置_v2.yaml, файл_конфиг.py, src/cấu_hình.py",
    "修改了/src/app/parser.py文件, 在src/目录下的parser.py运行; чтение/запись, Größe/Länge, 5-й шаг",
]

INVENTED = [
    "src/app/lexer.py was changed as well", "the module `src/core/parser.rs` was changed", "it took 1199 ms in the end",
    "the job `.github.Workflow` was changed as well", "it took 54 KB in the end", "es dauerte 2.198 ms am Ende",
    "ポートは７７７７です", "all of it was done on 2031-07-19", "the run began at 15:45 as planned",
    "the ticket for it is HAT-4711", "the commit for it is 3f2a9c2", "python 3.12.4 is what it needs",
    'he said "we can ship it on Monday" then', "`rm -rf build` was run before that", "all was done on 2026-05-09",
    "the function parse_footer is the one", "see https://example.org/other for that", "it runs on node 18.18 now",
    "it was sent to kim@example.org then", "it was started with DEBUG=true there", "docs/größe.md was changed too",
    "it goes with --no-such-option in that place", "файл_другой.py was changed as well", "12,345 lines went by there",
    "src/配置文件.yaml was changed as well", "修改了/src/app/lexer.py的文件", "функция_иная was changed as well",
]  # fmt: skip


async def summarized(*replies: Any) -> tuple[str, Any, list[SummaryJob]]:
    """Return the summaries of a session whose first segment is answered so, its figures, and the jobs for it."""
    asked: list[SummaryJob] = []

    def answer(job: SummaryJob) -> str | SummaryReply:
        if job.kind != "segment" or RECORD.splitlines()[0] not in job.content:
            return "none" if job.kind == "rules" else "## Done\n- The work went on."
        asked.append(job)
        return replies[min(len(asked), len(replies)) - 1]

    settings = Settings(**{**SMALL, "max_tokens": 6_000}, attempts=2)
    async with open_context(settings, summarizer=ScriptedSummarizer(answer)) as context:
        await contexts.fill(context, [user(RECORD + FILLER), *[assistant(FILLER), user(FILLER)] * 3])
        await context.compact()
        await context.wait_idle(30)
        await context.compact()
        rows = [row["content"] for row in await context.get_messages_for_request() if isinstance(row["content"], list)]
        return "\n".join(part["text"] for row in rows for part in row), context.statistics(), asked


@pytest.mark.parametrize("at", range(0, len(HONEST), 4))
async def test_an_honest_way_of_writing_stays(at: int):
    lines = HONEST[at : at + 4]
    text, figures, asked = await summarized(f"## Done\n{KEPT}\n" + "\n".join(f"- {line}" for line in lines))
    assert ([line for line in lines if line not in text], figures.dropped_lines, len(asked)) == ([], 0, 1)


@pytest.mark.parametrize("at", range(0, len(INVENTED), 3))
async def test_an_invention_is_dropped_and_what_stands_around_it_stays(at: int):
    lies = INVENTED[at : at + 3]
    lines = "\n".join(f"{KEPT}\n{KEPT} It is well, {word}.\n- {lie}" for word, lie in zip("abc", lies, strict=False))
    text, figures, asked = await summarized(f"## Done\n{lines}")
    assert [lie for lie in lies if lie in text] == []
    assert (text.count("It is well"), figures.dropped_lines, len(asked)) == (len(lies), len(lies), 1)


async def test_only_the_sentence_that_lies_goes_and_an_empty_section_with_it_and_what_a_reply_is_wrapped_in():
    line = "- The parser works well by now. It took 777 ms. All of the checks pass today, as was asked for."
    lying = f"## Errors and fixes\n- see HAT-999\n## Done\n{KEPT}\n{line}"
    text, figures, _ = await summarized(f"<think>short one</think>Here is the summary:\n```markdown\n{lying}\n```")
    assert "The parser works well by now. All of the checks pass today" in text
    gone = ("777", "HAT-999", "## Errors and fixes", "short one", "Here is the summary")
    assert [one for one in gone if one in text] == []
    assert (figures.dropped_lines, figures.refused_replies) == (2, 0)


async def test_a_reply_that_would_lose_a_third_is_asked_for_again_and_the_inventions_are_named():
    text, figures, asked = await summarized("## Done\n- The build was fixed, see HAT-4711.\n- All is well.", KEPT)
    assert (KEPT in text, "HAT-4711" in asked[1].instructions) == (True, True)
    assert (len(asked), figures.refused_replies, figures.refused_input_tokens > 0) == (2, 1, True)
    lying = f"## Done\n{KEPT}\n- The build was fixed in HAT-4711 and then it was deployed to 10.9.8.7 on Monday."
    text, figures, asked = await summarized(lying)  # what is left of it stands when the second is no better
    assert (KEPT in text, "4711" in text, len(asked), figures.dropped_lines) == (True, False, 2, 1)


BAD = [
    "...",
    "I'm sorry, but I can't help with that.",
    "Please provide the conversation that you want me to summarize.",
    "Error code: 529 - overloaded",
    "**[Error: upstream timed out]**",
    "<html><body>502 Bad Gateway</body></html>",
    SummaryReply("## Done\n- The parser was", truncated=True),
    "## Done\n" + "- The work went well and was looked at.\n" * 900,
    "- HAT-4711",
]


@pytest.mark.parametrize("reply", BAD)
async def test_a_reply_of_a_bad_form_is_asked_for_again(reply: Any):
    text, figures, asked = await summarized(reply, KEPT)
    assert (KEPT in text, len(asked), figures.refused_replies) == (True, 2, 1)


async def test_a_model_and_prompts_that_no_summary_is_asked_with_are_told(caplog, tmp_path: Path):
    async with open_context(Settings(model="some-model", prompts=tmp_path)):
        pass
    told = [record.getMessage() for record in caplog.records if record.levelname == "WARNING"]
    assert [message.partition(" = ")[0] for message in told] == ["model", "prompts"]

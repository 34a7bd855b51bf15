"""What a model writes down as fact stands in what it read: inventions are dropped, honest ways of writing stay."""

from typing import Any

import pytest

from summarizing_context import Settings, Statistics, SummaryJob, SummaryReply, open_context
from summarizing_context.testing import ScriptedSummarizer
from tests.behaviour.contexts import fill
from tests.laws.builders import assistant, user

SIZES: dict[str, int] = {"max_tokens": 6_000, "segment_min": 200, "segment_target": 400, "segment_max": 800}
SETTINGS = Settings(**SIZES, token_counter="estimate", idle_after="never", attempts=2)
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
    *("src/app/lexer.py was changed as well", "the module `src/core/parser.rs` was changed"),
    *("the job `.github.Workflow` was changed as well", "it took 1199 ms in the end", "it took 54 KB in the end"),
    *("es dauerte 2.198 ms am Ende", "ポートは７７７７です", "all of it was done on 2031-07-19"),
    *("the run began at 15:45 as planned", "the ticket for it is HAT-4711", "the commit for it is 3f2a9c2"),
    *(
        "python 3.12.4 is what it needs",
        'he said "we can ship it on Monday" then',
        "`rm -rf build` was run before that",
    ),
    *("the function parse_footer is the one", "see https://example.org/other for that"),
    *("it was sent to kim@example.org then", "it was started with DEBUG=true there"),
    *("it goes with --no-such-option in that place", "файл_другой.py was changed as well"),
    *("функция_иная was changed as well", "src/配置文件.yaml was changed as well", "docs/größe.md was changed as well"),
    *("修改了/src/app/lexer.py的文件", "it runs on node 18.18 in that place", "12,345 lines went by in that place"),
    "all of it was done on 2026-05-09",
]


async def summarized(*replies: Any) -> tuple[str, Statistics, list[SummaryJob]]:
    """Return the summaries of a session whose first segment is answered so, its figures, and the jobs for it."""
    asked: list[SummaryJob] = []

    def answer(job: SummaryJob) -> str | SummaryReply:
        if job.kind != "segment" or RECORD.splitlines()[0] not in job.content:
            return "none" if job.kind == "rules" else "## Done\n- The work went on."
        asked.append(job)
        return replies[min(len(asked), len(replies)) - 1]

    async with open_context(SETTINGS, summarizer=ScriptedSummarizer(answer)) as context:
        await fill(context, [user(RECORD + FILLER), *((user if at % 2 else assistant)(FILLER) for at in range(6))])
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
    "<html><body>502 Bad Gateway</body></html>",
    SummaryReply("## Done\n- The parser was", truncated=True),
    "## Done\n" + "- The work went well and was looked at.\n" * 900,
    "- HAT-4711",
]


@pytest.mark.parametrize("reply", BAD)
async def test_a_reply_of_a_bad_form_is_asked_for_again(reply: Any):
    text, figures, asked = await summarized(reply, KEPT)
    assert (KEPT in text, len(asked), figures.refused_replies) == (True, 2, 1)

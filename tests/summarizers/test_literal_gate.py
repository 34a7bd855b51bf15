"""No summary holds a literal that its source does not, and honest ones are let through."""

from __future__ import annotations

import os
from random import Random

import pytest

from summarizing_context.errors import SummarizerRefused
from summarizing_context.summarizers.base import SummaryJob
from summarizing_context.summarizers.verification.gate import unsupported_literals, verify_against
from summarizing_context.summarizers.verification.sources import SourceValues, source_values

from .altering import exact_values, lies, told_values, truths
from .inventing import facts, honest_lines, lying_reply, record, spelled
from .scripted import job, resilient, words

pytestmark = pytest.mark.anyio

REPLIES = int(os.environ.get("GATE_REPLIES", "150"))
SOURCE = """### user
Fix src/app/parser.py, never push. It took 1198 ms, 12288 bytes, 85.4 % of 1,234,567 rows at 2026-03-09T14:30:05Z.
See https://example.com/a?b=1 and HAT-215, commit 3f2a9c1d77e0aa. He said "we can't ship on Friday".
### assistant calls run
{"duration_ms":45,"cmd":"pytest -q\\ntests/test_x.py","path":"C:\\\\work\\\\notes.md"}
### result of run
404 errors in two hours; python 3.11.2; parse_header, getUserName; kim@example.com; \x1b[32mdist/out.js"""
HELD = SourceValues(SOURCE)


@pytest.mark.parametrize(
    "honest",
    [
        "parser.py, app/parser.py, `./src/app/parser.py` and src/app/",
        "it took 1,198 ms, about 1,200 ms, 1.2 s, roughly 1.2 seconds",
        "done: files=3, took=1198ms",
        "12 KB, 85%, 85.4 percent, ~1.2M rows, more than 1,200,000 rows",
        "March 9, 2026; 9 Mar; on 9 March 2026; 2:30 pm; 14:30",
        "ticket #215, hat-215, HAT 215, commit 3f2a9c1",
        "“we can’t ship on Friday”, 'we can't ship on Friday', \"We can't ship...\"",
        "45 ms, 45ms, 404s, 2 hours, a 2-hour run, Python 3.11, v3.11.2",
        "tests/test_x.py, `pytest -q tests/test_x.py`, parse_header(), `parsing`, getUserName",
        "three files, 12 files, step 7, 1 in 3, 24/7, and/or, CI/CD, e.g. this, Node.js, 3rd, ½",
        "C:\\work\\notes.md, notes.md, kim@example.com, dist/out.js, https://example.com/a",
        "Summary 4711: the parser was fixed.",
        "case 7 may fail again",
    ],
)
def test_what_the_source_says_in_other_words_is_supported(honest: str):
    assert unsupported_literals(honest, HELD) == []


BINDING = SourceValues("""### user
The staging port is 6543. Set DEBUG=false and LOG_LEVEL: info; enable TRACE. libfoo 2.4.1 is in src/app.py.
### result of run
exit codes 0, 1, 2, 3; read lines 1-268; API version 4""")


def spellings(digits: str) -> list[str]:
    """A number in other digits and signs of Unicode, as a reference of HTML, and digit by digit."""
    zeros = "\N{FULLWIDTH DIGIT ZERO}٠०০๐\N{MATHEMATICAL BOLD DIGIT ZERO}⁰₀"
    ones = "⑴⒈❶➀➊"
    powers = dict(zip(map(str, range(10)), "⁰¹²³⁴⁵⁶⁷⁸⁹", strict=True))
    words = ["zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine"]
    return [
        *("".join(chr(ord(zero) + int(digit)) for digit in digits) for zero in zeros if zero not in "⁰"),
        *("".join(chr(ord(one) + int(digit) - 1) for digit in digits) for one in ones),
        "".join(powers[digit] for digit in digits),
        "".join(f"&#{ord(digit)};" for digit in digits),
        "".join(f"&#x{ord(digit):x};" for digit in digits),
        "\u200b".join(digits),
        " ".join(digits),
        " ".join(words[int(digit)] for digit in digits),
    ]


@pytest.mark.parametrize("written", range(len(spellings("1"))))
def test_a_number_is_read_in_whatever_signs_it_is_written(written: int):
    assert unsupported_literals(f"- the staging port is {spellings('7777')[written]}", BINDING)
    assert unsupported_literals(f"- the staging port is {spellings('6543')[written]}", BINDING) == []
    found = SourceValues(f"### user\nThe staging port is {spellings('6543')[written]}.")
    assert unsupported_literals("- the staging port is 6543", found) == [] or written >= len(spellings("1")) - 2


@pytest.mark.parametrize(
    "lie",
    [
        *("DEBUG=true", "set `DEBUG=true`", "LOG_LEVEL=debug", "VERBOSE=yes", "TRACE_ALL=on"),
        *("libfoo v3", "libfoo v5", "port 77-77", "src∕server.py", "at 15∶45"),
    ],
)
def test_settings_versions_and_look_alike_marks_are_values(lie: str):
    assert unsupported_literals(f"- it was {lie}", BINDING)


PAIRS = SourceValues("""### user
The staging port is 6543 and production is 5432. Alice pays 1,200 euros, Bob 1,450.
### result of run
{"read_ms": 118, "write_ms": 240}
raised from 300 to 600, later from 600 to 300""")


@pytest.mark.parametrize(
    "lie",
    [
        "staging port is 5432 and production is 6543",
        "production: 6543, staging: 5432",
        "Bob 1,200, Alice 1,450",
        "read in 240 ms, write in 118 ms",
    ],
)
def test_two_values_in_one_anothers_place_are_refused(lie: str):
    assert unsupported_literals(f"- it was {lie}", PAIRS)


@pytest.mark.parametrize(
    "honest",
    [
        "production is 5432, staging 6543",
        "6543 is for staging and 5432 for production",
        "ports 5432 and 6543 are in use",
        "Bob 1,450, Alice 1,200",
        "write took 240 ms, read 118 ms",
        "from 600 to 300",
        "from 300 to 600",
    ],
)
def test_two_values_told_in_another_order_are_supported(honest: str):
    assert unsupported_literals(f"- it was {honest}", PAIRS) == []


@pytest.mark.parametrize(
    "honest",
    [
        *("DEBUG=false", "LOG_LEVEL=info", "TRACE=1", "`DEBUG=false` is set", "exit codes 0 1 2 3", "lines 1-268"),
        *("libfoo v2", "API v4", "one two three files", "a 2-1 vote", "src∕app.py", "A=b in general"),
    ],
)
def test_settings_and_versions_that_the_source_bears_out_are_supported(honest: str):
    assert unsupported_literals(f"- it was {honest}", BINDING) == []


@pytest.mark.parametrize(
    "lie",
    [
        *("src/app/parsers.py", "src/other/parser.py", "lib/thing", "`parser.rs`", "parser.py:482"),
        *("took=1199ms", "rows=48213"),
        *("1199 ms", "1200 ms", "1198 s", "54 ms", "45 s", "3 hours", "99%", "$500", "about 1,300 ms", "100 files"),
        *(
            "48213",
            "４８２１３",
            "0215",
            "lines 481-907",
            "2031-07-19",
            "March 10, 2026",
            "2:40 pm",
            "3.12",
            "10.0.0.7",
        ),
        *("HAT-216", "3f2a9c2", "deadbeef", "https://example.com/b", "ana@example.com", "v3.11.3", "x=500"),
        *('"we can ship on Friday"', "“do it on Monday”", "'we should ship it'", "`rm -rf build`", "`pytest -x`"),
        *("parse_footer", "getUserNames", "WidgetError", "part 48213 was ordered"),
    ],
)
def test_what_the_source_does_not_say_is_not(lie: str):
    assert unsupported_literals(f"- It was {lie}, then.", HELD) != []


def test_money_is_of_one_currency():
    held = SourceValues("At most $1,250 a month, 300 EUR once, and 40 pounds.")
    assert unsupported_literals("$1,250, 1250 dollars, 1,250, about $1.2k, €300, 300 euros, £40", held) == []
    for lie in ("€1,250", "1250 EUR", "$300", "£300", "$40"):
        assert unsupported_literals(f"- It costs {lie}.", held) != []


def test_numbers_may_be_told_in_words_and_words_in_numbers():
    held = SourceValues(
        "Budget: forty-two thousand euros. Wait half an hour, then 2 hours; 1,250 rows, 12 %, 30m. A dozen eggs."
    )
    honest = "42,000 euros, €42k, 42 thousand, 30 minutes, two hours, one thousand two hundred and fifty rows"
    assert unsupported_literals(f"{honest}, twelve percent, 12 eggs, one of them, in a day or two", held) == []
    for lie in (
        "forty-five thousand euros",
        "€45k",
        "three hours",
        "twenty minutes",
        "nine hundred rows",
        "ten percent",
    ):
        assert unsupported_literals(f"- It was {lie}.", held) != []


def test_units_that_the_source_leaves_unsaid_may_be_told():
    held = SourceValues(
        "-rw-r--r-- 1 root root 106625 Apr 30 08:32 CHANGELOG.md\n/dev/sda1 467G 398G 46G 90% /, limit 512M\n"
        '{"ttl": 86400, "timeout": 30, "prices": {"economy": 162, "basic": 69}, "seats": 14}\nsrc/ast/parser.c'
    )
    honest = "CHANGELOG.md is 107 KB; 46 GB of 467 GB are free, 512 MB at most; a day or 24 h, 30 seconds; $162 and €69"
    assert unsupported_literals(f"{honest}; all of `src/ast/*.c` and **src/ast/**", held) == []
    for lie in ("103 KB", "64 GB", "215 MB", "25 h", "13 seconds", "$96", "`src/core/*.c`"):
        assert unsupported_literals(f"- It is {lie}.", held) != []


def test_measures_may_be_told_as_people_tell_them():
    held = SourceValues(
        'memory: 512Mi; {"total_cents": 129950, "size": 9876543210, "loss": 1.3e-4}; lr=0.00003; ETA 00:12:30, 3m12s; '
        "3-4pm, 14:00 to 15:30; chmod 0644; main.py line 748; key nThbg6kXUpJWGl7E1IGOCspR; 2026-03-05T06:58:12-01:00"
    )
    honest = "512 MiB, $1,299.50, 9.9 GB, 0.00013, 3e-5, 12m30s or 12.5 minutes, 192 s, 15:00-16:00, mode 644, L748"
    assert unsupported_literals(f"{honest}, key nThbg6kX..., 14:00-15:30, 06:58", held) == []
    for lie in (
        "521 MiB",
        "$1,299.05",
        "8.9 GB",
        "0.00031",
        "3e-4",
        "12m45s",
        "14:00-17:00",
        "744",
        "L784",
        "nThbg6kY...",
    ):
        assert unsupported_literals(f"- It is {lie}.", held) != [], lie


def test_a_setting_has_the_number_that_stands_beside_its_name():
    held = SourceValues(
        "MAX_RETRIES: 3 took 30.0 s; `pytest --maxfail=5` on port 15; I raised BATCH_ROWS=64 to 96 just now"
    )
    assert unsupported_literals("MAX_RETRIES=3, --maxfail=5, BATCH_ROWS=96, BATCH_ROWS=64, failed=15", held) == []
    for lie in ("MAX_RETRIES=30", "--maxfail=15", "BATCH_ROWS=30"):
        assert unsupported_literals(f"- It has {lie}.", held) != []


def test_a_minus_needs_a_loss():
    held = SourceValues(
        "It fell by 40 %. Now it is -7.5 °C; the balance is (300). There are 512 MB and 900 rows of it, all told."
    )
    assert unsupported_literals("-40 %, minus 7.5 degrees, 7.5 °C, -300, a drop of 40%, 512-900", held) == []
    for lie in ("-512 MB", "minus 512 MB", "-900 rows", "negative 900"):
        assert unsupported_literals(f"- All in all there are {lie}.", SourceValues("512 MB and 900 rows")) != []


def test_code_in_a_fence_is_copied_or_made_up():
    held = SourceValues("Ran `make all quietly` and then cat notes.")
    assert unsupported_literals("- So:\n```sh\nmake all quietly\n```\n- Done and dusted.", held) == []
    assert unsupported_literals("- So:\n```sh\nmake none loudly\n```", held) == ["make none loudly"]
    assert unsupported_literals("- So:\n```\nwhich is never closed", held) == []


def test_escapes_may_be_read_in_either_way():
    held = SourceValues('### assistant calls write\n{"text":"```ts\\n// first\\nSee C:\\\\new\\\\notes.md"}')
    assert unsupported_literals(r"wrote ```ts\n// first, C:\new\notes.md", held) == []
    assert unsupported_literals(r"wrote C:\old\notes.md", held) != []


def test_numbers_of_any_length_are_read():
    number = "7" * 5_000
    for text in (
        number,
        f"about {number} rows",
        f"{number}-{number}",
        f"~1{',000' * 2_000}k",
        f"{number}:30",
        f"0.{number} ms",
    ):
        assert unsupported_literals(text, SourceValues(text)) == []
        assert unsupported_literals(text, SourceValues("12 rows in 3 ms")) != []


def test_what_the_job_says_of_itself_is_no_invention():
    told = f"messages 100 to 199, part {job().range_hash[:8]}"
    assert unsupported_literals(told, HELD) != []
    assert unsupported_literals(told, source_values(job(start=100, stop=200))) == []


def test_only_the_sentence_that_lies_is_dropped_and_empty_sections_go():
    text = "## Intent\n- see HAT-999\n\n## Done\n- The parser works. It took 777 ms. Tests pass now.\n- 48213 rows"
    bad = ("hat-999", "777 ms", "48213")
    assert verify_against(text, HELD) == ("## Done\n- The parser works. Tests pass now.", 3, bad)


def test_a_summary_of_nothing_but_lies_is_empty():
    assert verify_against("## Done\n- HAT-999 is done\n- all is well", HELD).text == ""


def test_honest_paraphrases_are_let_through():
    refused = []
    for seed in range(500):
        random = Random(seed)
        told = facts(random)
        refused += unsupported_literals("\n".join(honest_lines(told, random)), SourceValues(record(told)))[:1]
    assert len(refused) < 5, refused


def test_no_altered_value_is_taken_for_the_true_one():
    through = []
    for seed in range(10):
        values = exact_values(Random(seed))
        held = SourceValues(told_values(values))
        altered = [(name, lie) for name, lie in lies(values, Random(f"lies {seed}")) if lie not in values.values()]
        assert len(altered) > 70
        through += [one for one in altered if not unsupported_literals(f"- It was {one[1]}, then.", held)]
    assert through == []


def test_true_values_told_in_other_ways_are_let_through():
    for seed in range(10):
        values = exact_values(Random(seed))
        told = "\n".join(f"- It was {truth}, then." for truth in truths(values, Random(seed)))
        assert unsupported_literals(told, SourceValues(told_values(values))) == []


OPEN = SourceValues("""### user
Read src/a.py, src/b.py, src/modes/a.ts and docs/x.md, then git push origin feature/x; queueModeSelector is in.
### result of run
GET /users/42/posts 200, router.get('/orders/{orderId}/items'), WP6 to WP10 are done
.github/workflows/release.yml, scripts/publish.ts
app/
|- parts/
|- main.c""")


def test_what_a_path_or_a_command_leaves_open_needs_no_value():
    honest = "/users/{id}, `/users/:id`, `/users/<id>/posts`, /orders/:id/items, `GET /users/$ID`, src/?.py, `src/*.py`"
    assert unsupported_literals(honest, OPEN) == []
    assert unsupported_literals("src/**/*.ts, *.md, `git push origin $BRANCH`, `git push origin [branch]`", OPEN) == []
    for lie in (
        "`docs/*.py`",
        "docs/*.py",
        "src/*.rs",
        "`src/?.rs`",
        "*.rs",
        "/orders/{id}/posts",
        "/carts/:id",
        "**src/modes/x.md**",
    ):
        assert unsupported_literals(f"- It was {lie}, then.", OPEN) != [], lie


def test_an_address_in_bold_is_no_pattern():
    held = SourceValues("See https://example.com/parser/1 and the meadow.")
    for lie in ("**https://example.com/parser/1/meadow**: fixed", "see https://example.com/parser/1/meadow** too"):
        assert unsupported_literals(f"- {lie}", held) != []


def test_ranges_of_names_folders_and_slashes_that_mean_or_are_supported():
    assert unsupported_literals("WP6-WP10, WP6-10, src/modes/, app/parts/, app/main.c, release/publish", OPEN) == []
    assert unsupported_literals("the queueMode", OPEN) == []
    for lie in ("WP6-WP12", "docs/modes/", "app/a.py", "src/publish", "the queueMod"):
        assert unsupported_literals(f"- It was {lie}, then.", OPEN) != [], lie


def test_a_pattern_of_many_stars_is_told_at_once():
    assert unsupported_literals(f"- `{'*a' * 90}/*b.py`", SourceValues("a" * 100_000)) != []


class Liar:
    """Lies each time it is asked, and remembers the lies."""

    def __init__(self, seed: int) -> None:
        self._random = Random(f"lies {seed}")
        self.told = facts(self._random)
        self.lies: list[str] = []

    async def __call__(self, _: SummaryJob) -> str:
        reply, lies = lying_reply(self.told, self._random)
        self.lies += lies
        return reply


async def test_no_committed_summary_holds_an_invented_literal():
    """Also when the model lies again when it is asked again; `GATE_REPLIES` says how often."""
    dropped = 0
    for seed in range(REPLIES):
        liar = Liar(seed)
        source = record(liar.told)
        outer, _, _ = resilient(liar)
        text = (await outer.summarize(job(content=source, source_tokens=words(source), max_tokens=400))).text
        held = [lie for lie in liar.lies if spelled(lie) in spelled(text)]
        assert not held, f"seed {seed}: {held} in {text!r}"
        figures = outer.statistics()
        dropped += figures.dropped_lines
        assert figures.breaker == "closed"
        assert (figures.refused_input_tokens > 0) == (figures.refused_replies > 0)
    assert dropped > REPLIES


LIE, TRUTH = "- The build was fixed, see HAT-4711.\n- All the tests pass since.", "- All the tests pass since."


async def test_a_reply_with_inventions_is_asked_for_once_more_and_they_are_named():
    outer, inner, clock = resilient(LIE, TRUTH)
    assert (await outer.summarize(job())).text == TRUTH
    assert '"hat-4711"' in inner.asked[1].instructions
    assert inner.asked[1].content == inner.asked[0].content
    figures = outer.statistics()
    assert (figures.refused_replies, figures.dropped_lines, figures.failed_jobs, clock.slept) == (1, 0, 0, [0.0])


@pytest.mark.parametrize("second", [LIE, "", OSError("down")])
async def test_what_is_left_of_it_is_kept_when_the_second_answer_is_no_better(second: object):
    outer, inner, _ = resilient(LIE, second)
    assert (await outer.summarize(job())).text == TRUTH
    assert (len(inner.asked), outer.statistics().dropped_lines) == (2, 1)


async def test_without_a_second_attempt_the_lines_are_dropped_at_once():
    outer, _, _ = resilient(LIE, attempts=1)
    assert (await outer.summarize(job())).text == TRUTH


async def test_a_reply_of_which_nothing_is_left_is_given_up_and_not_told():
    outer, inner, _ = resilient("- HAT-4711")
    with pytest.raises(SummarizerRefused) as caught:
        await outer.summarize(job())
    assert len(inner.asked) == 2
    assert "4711" not in f"{caught.value!r} {caught.value.__cause__!r} {outer.statistics()}"

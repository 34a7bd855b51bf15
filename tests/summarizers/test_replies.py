"""Which replies can serve as a summary, which cannot, and what is stripped from them."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from summarizing_context.errors import SummarizerRefused
from summarizing_context.summarizers.base import SummaryJob, SummaryReply
from summarizing_context.summarizers.verification.attribution import NOT_THE_USERS
from summarizing_context.summarizers.verification.replies import MOST_CHARACTERS, Refusal, check_reply, clean_reply

from .scripted import CONTENT, GOOD, SECRET, job, reply, words


def checked(given: object, asked: SummaryJob | None = None) -> str:
    return check_reply(given, asked or job(), words).text


def refusal(given: object, asked: SummaryJob | None = None) -> Refusal:
    with pytest.raises(SummarizerRefused) as caught:
        check_reply(given, asked or job(), words)
    return caught.value.args[0]


def test_text_and_a_reply_with_text_are_taken():
    assert checked(GOOD) == checked(reply(GOOD)) == GOOD


@pytest.mark.parametrize("given", [None, 7, b"text", ["text"], {"text": "x"}, SummaryReply(None), SummaryReply(b"x")])
def test_what_is_not_text_is_refused(given: object):
    assert refusal(given) is Refusal.NOT_TEXT


@pytest.mark.parametrize(
    "given",
    ["", " \n\t ", "\x00", "```\n```", "```markdown\n\n```", "...", "---", "\ufeff", "Here is the summary:"],
)
def test_an_empty_reply_is_refused(given: str):
    assert refusal(given) is Refusal.EMPTY


def test_a_reply_cut_off_by_the_length_limit_is_refused():
    assert refusal(reply(truncated=True)) is Refusal.CUT_OFF


def test_a_reply_that_ends_inside_its_thinking_is_refused():
    assert refusal("<think>The user wants") is Refusal.CUT_OFF


def test_a_reply_above_the_size_limit_is_refused_before_anything_is_done_with_it():
    with pytest.raises(SummarizerRefused, match="too large"):
        check_reply("x" * (MOST_CHARACTERS + 1), job(), words)


@pytest.mark.parametrize(
    "given",
    [
        "I'm sorry, but I can't help with that.",
        "I\u2019m sorry, but I can\u2019t assist with that request.",
        "Sorry, I cannot summarize this conversation.",
        "I cannot provide a summary of this content.",
        "As an AI language model, I do not have access to files.",
        "I am unable to process the text you sent.",
        "Unfortunately, I'm not able to do this.",
        "Please provide the conversation that you would like me to summarize.",
        "There is no conversation to summarize.",
    ],
)
def test_a_model_that_declines_is_refused(given: str):
    assert refusal(given) is Refusal.DECLINED


@pytest.mark.parametrize(
    "given",
    [
        "Error: something broke",
        "Error code: 429 - {'error': {'message': 'slow down'}}",
        "openai.RateLimitError: too many",
        "Internal Server Error",
        "Rate limit exceeded, please retry later",
        "429 Too Many Requests",
        "503 Service Unavailable",
        "502 Bad Gateway",
        "You exceeded your current quota, please check your plan",
        "Request timed out.",
        "upstream connect error or disconnect/reset before headers",
        "The server is currently overloaded",
        '{"error": {"message": "overloaded"}}',
        '{"type":"error","error":{"type":"overloaded_error"}}',
        "<!DOCTYPE html>\n<html><body>" + "<p>gateway</p>" * 50,
        "<html><head><title>502</title>",
    ],
)
def test_a_provider_s_error_text_is_refused(given: str):
    assert refusal(given) is Refusal.ERROR_TEXT


@pytest.mark.parametrize(
    "given",
    [
        "The build failed with Error: exit code 2; numpy was pinned.",
        "## Errors and fixes\n- Error: rate limit exceeded; a retry was added.",
        "- Error: exit code 2",
        "Error handling was moved to a.py.",
        "Error: exit code 2 in CI.\n- fixed by pinning numpy",
        "Rate limits were raised to 50 a minute.",
        "Service unavailable pages are now tested.",
        "## Intent\n- I'm sorry, but I can't do this myself, please fix the build.",
        "The user is sorry but cannot share the file.",
        "I cannot reproduce the crash; the user will send a log.",
        "As an AI-assisted project it must label its output.",
        "Please provide feedback was the user's last word.",
        "<user> is the tag that the parser missed.",
        "OK.",
        "42",
        "Die Nutzerin will nie auf main pushen.",
        "\u7528\u6237\u8981\u6c42\u4fee\u590d\u6784\u5efa",
        "Error: " + "a long report on errors that were met and fixed one by one, " * 7,
    ],
)
def test_a_summary_about_errors_or_refusals_is_taken(given: str):
    assert checked(given).replace(f"{NOT_THE_USERS} ", "") == given.strip()


def test_the_whole_content_given_back_is_refused():
    assert refusal(CONTENT) is Refusal.ECHO
    assert refusal("Summary\n\n" + CONTENT.replace("\n", "\n\n")) is Refusal.ECHO


def test_the_prompt_given_back_is_refused_also_when_it_breaks_off():
    assert refusal(job().prompt) is Refusal.ECHO
    assert refusal(job().prompt[:70]) is Refusal.ECHO
    assert refusal(job(content="hi", instructions="sum up").prompt, job(content="hi", instructions="sum up"))


def test_a_long_copy_of_a_run_of_lines_is_refused():
    copied = "\n".join(CONTENT.split("\n")[20:60])
    assert words(copied) > job().max_tokens
    assert refusal(copied) is Refusal.ECHO


def test_a_summary_that_quotes_its_source_is_taken():
    lines = CONTENT.split("\n")
    scattered = "\n".join(lines[5:300:7])
    assert words(scattered) > job().max_tokens
    assert checked(scattered) == scattered
    assert checked(f"Please fix the build, {SECRET}.")
    assert checked("\n".join(lines[4:20]))


def test_a_rollup_that_repeats_some_of_its_children_s_lines_is_taken():
    children = [f"## Done\n- file {i} was fixed\n- test {i} was added" for i in range(40)]
    content = "\n".join(f"### summary {i + 1} of 40\n{child}" for i, child in enumerate(children))
    asked = job(kind="rollup", rank=1, content=content, source_tokens=words(content))
    assert checked("## Done\n" + "\n".join(f"- file {i} was fixed" for i in range(24)), asked)


def test_a_small_content_may_stand_in_its_summary():
    assert checked("The user said: fix it.", job(content="fix it", source_tokens=2))


@pytest.mark.parametrize(
    ("length", "source_tokens", "fault"),
    [
        (150, 1000, None),
        (151, 1000, Refusal.OVER_CAP),
        (110, 220, None),
        (111, 220, Refusal.OVER_HALF),
        (120, 200, None),
    ],
)
def test_a_reply_may_have_one_and_a_half_caps_and_half_of_a_source_that_is_not_small(
    length: int, source_tokens: int, fault: Refusal | None
):
    text, asked = " ".join(f"w{i}" for i in range(length)), job(source_tokens=source_tokens)
    if fault is None:
        assert checked(text, asked) == text
    else:
        assert refusal(text, asked) is fault


def test_a_reply_far_over_the_cap_is_not_even_counted():
    def failing(_: str) -> int:
        raise AssertionError("counted")

    with pytest.raises(SummarizerRefused):
        check_reply("word " * 20_000, job(), failing)


@pytest.mark.parametrize(
    "given",
    [
        f"  \n{GOOD}\n\n",
        f"```\n{GOOD}\n```",
        f"```markdown\n{GOOD}\n```\n",
        f"~~~\n{GOOD}\n~~~",
        f"Here is the summary:\n\n{GOOD}",
        f"Here's a concise summary of the conversation: {GOOD}",
        f"Sure! Here is your summary:\n```md\n{GOOD}\n```",
        f"Certainly, below is the summary of these messages:\n{GOOD}",
        f"**Summary:**\n{GOOD}",
        f"Summary:\n{GOOD}",
        f"Sure!\n{GOOD}",
        f"<think>What was done?</think>\n\n{GOOD}",
        f"\ufeff{GOOD}\x00",
    ],
)
def test_what_stands_around_a_summary_is_stripped(given: str):
    assert checked(given) == GOOD


@pytest.mark.parametrize(
    "given",
    [
        "```py\na = 1\n```\nwas run, then\n```py\nb = 2\n```",
        "```\na = 1\n```\nthen\n```\nb = 2\n```",
        "The summary of report.md: sales fell.",
        "Here is where the bug was: in a.py",
        "Here is what the user wants:\n- green tests",
        "Okay: all tests pass.",
        "Summary of the table:\n- 3 rows",
        "Use ``` around code",
    ],
)
def test_what_belongs_to_a_summary_stays(given: str):
    assert checked(given).replace(f"{NOT_THE_USERS} ", "") == given


def test_code_inside_a_stripped_fence_stays():
    inside = "## Done\n- ran\n```py\na = 1\n```\n- saved"
    assert checked(f"```markdown\n{inside}\n```") == inside


def test_surrogates_are_joined_or_replaced():
    assert checked("pair \ud83d\ude00 lone \ud800 end") == "pair \U0001f600 lone \ufffd end"


@pytest.mark.parametrize("tokens", [-1, 0, 10**9, 1.5, True, "7", None])
def test_usage_that_cannot_be_true_is_left_out(tokens: object):
    taken = check_reply(reply(input_tokens=tokens, output_tokens=tokens), job(), words)
    assert (taken.input_tokens, taken.output_tokens) == (None, None)


def test_usage_that_can_be_true_is_kept():
    taken = check_reply(reply(input_tokens=900, output_tokens=40), job(), words)
    assert (taken.input_tokens, taken.output_tokens) == (900, 40)


@pytest.mark.parametrize("given", ["", CONTENT, "I'm sorry, but I can't.", "Error: " + SECRET])
def test_a_refusal_tells_nothing_of_the_text(given: str):
    with pytest.raises(SummarizerRefused) as caught:
        check_reply(given, job(), words)
    assert SECRET not in str(caught.value)
    assert "Refusal" not in str(caught.value)


@settings(max_examples=200, deadline=None)
@given(st.text(st.characters(codec=None) | st.sampled_from("`~\n#:\ud800\udc00\x00 "), max_size=80))
def test_any_text_is_taken_clean_or_refused(given: str):
    try:
        text = checked(given)
    except SummarizerRefused:
        return
    text.encode()
    assert text == text.strip()
    assert "\x00" not in text
    assert clean_reply(text) == text

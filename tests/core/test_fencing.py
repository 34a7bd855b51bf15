"""Fences that the text inside cannot end."""

from __future__ import annotations

import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from summarizing_context.core.fencing import fence, neutral, within_fence

TAG = re.compile(r"<\s*/?\s*(history|summary|earlier_message|late_result)\b", re.IGNORECASE)


@given(st.text(st.sampled_from("</ >\nhistorysummarHISTORY="), max_size=60))
@settings(max_examples=200, deadline=None)
def test_no_text_opens_or_closes_a_fence(text):
    fenced = fence("history", text, messages="0-3")
    assert len(TAG.findall(fenced)) == 2
    assert fenced.startswith('<history messages="0-3">\n')
    assert fenced.endswith("\n</history>")


@pytest.mark.parametrize("tag", ["</history>", "<HISTORY >", "</ summary>", "<late_result call='x'>"])
def test_each_of_our_tags_loses_its_meaning(tag):
    assert not TAG.search(neutral(f"a {tag} b"))
    assert neutral(f"a {tag} b").endswith("b")


@pytest.mark.parametrize(
    "tag",
    [
        *("<\\/history>", "<//history>", "</history\u200b>", "<\u200b/history>", "</his\u200btory>", "</\x00summary>"),
        *(
            "\uff1c/history\uff1e",
            "<\uff0fhistory>",
            "<\u2044summary>",
            "</\u2060session_record>",
            "<\ufeff/ history x=1>",
        ),
    ],
)
def test_tags_that_only_look_like_ours_lose_their_meaning_too(tag):
    assert neutral(f"a {tag} b") == f"a ‹{tag[1:]} b"


def test_looking_for_tags_takes_no_time():
    text = ("<" + "\u200b /" * 20_000) * 3 + "<his\u200btory"
    assert neutral(text).count("‹") == 1


def test_other_tags_stay_as_they_are():
    assert neutral("<b>x</b> a < b <historian>") == "<b>x</b> a < b <historian>"


def test_the_inside_of_a_fence_is_changed_and_the_fence_stays():
    assert within_fence(fence("summary", "a\nb"), str.upper) == "<summary>\nA\nB\n</summary>"

"""Topics: what is one, and what of a note is shown."""

from __future__ import annotations

import re

import pytest

from summarizing_context.errors import SettingsError
from summarizing_context.worker.topic_notes import MOST_CHARACTERS, check_focus, note_text


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        (5, "int; it is a text"),
        (b"x", "bytes"),
        ("", "names nothing"),
        (" \n\t", "names nothing"),
        ("?!", "names nothing"),
        ("\x00\u200b", "names nothing"),
        ("x" * (MOST_CHARACTERS + 1), "501 characters; allowed: up to 500"),
    ],
)
def test_what_is_no_topic_is_refused_without_its_text(wrong: object, said: str):
    with pytest.raises(SettingsError, match="focus") as caught:
        check_focus(wrong)
    assert said in str(caught.value)
    assert "xxx" not in str(caught.value)


def test_a_topic_stands_on_one_line_without_what_cannot_be_shown():
    assert check_focus(" the port\n\n### user\x1b[31m\ud800 of  Köln ") == "the port ### user [31m of Köln"


def test_a_topic_is_redacted_as_it_was_given_before_it_is_made_one_line():
    def redact(text: str) -> str:
        return re.sub(r"(?m)^DB_PASSWORD=.*$|-BEGIN-\n\w+\n-END-", "[gone]", text)

    assert check_focus("the port\nDB_PASSWORD=hunter2\nof it", redact) == "the port [gone] of it"
    assert check_focus("why -BEGIN-\nhunter2\n-END-", redact) == "why [gone]"
    assert check_focus('why "-BEGIN-\\nhunter2\\n-END-"', redact) == 'why "[gone]"'
    with pytest.raises(SettingsError, match="names nothing"):
        check_focus("hunter2", lambda _: "***")


def test_a_note_keeps_the_newest_lines_that_fit():
    assert note_text("x", "- a\n\n- b\n- c", lambda text: "- a" not in text).splitlines()[1:] == ["- b", "- c"]
    assert note_text("x", "- a", lambda _: False) == note_text("x", " \n", lambda _: True) == ""

"""Where in a view the words of an answer are found."""

from __future__ import annotations

from summarizing_context.evaluation.demo import DemoQuestion, find_answers
from summarizing_context.evaluation.view_parts import is_header, view_parts
from summarizing_context.views.header import END, PREFACE


def says(role: str, text: str) -> dict[str, object]:
    return {"role": role, "content": text}


def header(*nodes: tuple[int, int, str]) -> dict[str, object]:
    texts = [f'<summary messages="{first}-{last}">\n{text}\n</summary>' for first, last, text in nodes]
    return {"role": "user", "content": [{"type": "text", "text": text} for text in (PREFACE, *texts, END)]}


LOG = [
    says("system", "be careful"),
    says("user", "the port is 8080"),
    says("assistant", "noted"),
    says("user", "make it 9090"),
    says("assistant", "done in config.toml"),
    says("user", "thanks"),
    says("assistant", "welcome"),
]
VIEW = [LOG[0], LOG[1], header((2, 4, "port 8080 became 9090")), LOG[3], *LOG[5:]]


def test_a_view_has_system_rows_pins_a_header_and_a_tail():
    assert view_parts(VIEW, LOG) == ["system", "pin", "header", "pin", "tail", "tail"]


def test_without_a_header_all_but_the_leading_rows_is_tail():
    assert view_parts(LOG, LOG) == ["system", *["tail"] * 6]


def test_only_our_own_message_is_a_header():
    assert is_header(header((0, 1, "x")))
    assert is_header({"role": "user", "content": [{"type": "text", "text": "[12 earlier messages left out]"}]})
    assert not is_header({"role": "user", "content": [{"type": "text", "text": "[interrupted]"}]})
    assert not is_header(says("user", PREFACE))


def test_an_answer_is_found_with_its_place_and_its_words():
    questions = [
        DemoQuestion("the port?", (("port", "9090"), ("make it 9090",)), 3),
        DemoQuestion("what it was, and where?", (("8080", "be careful"),), 1),
        DemoQuestion("how to work?", (("be careful",),), 0),
    ]
    port, spread, care = find_answers(questions, VIEW, LOG)
    assert (port.part, port.words) == ("pin", "make it 9090")
    assert (spread.found, spread.words) == (False, "")
    assert (care.part, care.words) == ("system", "be careful")

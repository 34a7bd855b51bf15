"""The parts of a view, told from its texts."""

from __future__ import annotations

from summarizing_context.evaluation.view_parts import view_parts
from summarizing_context.views.header import END, PREFACE


def says(role: str, text: str) -> dict[str, object]:
    return {"role": role, "content": text}


def header(*texts: str) -> dict[str, object]:
    return {"role": "user", "content": [{"type": "text", "text": text} for text in texts]}


LOG = [
    says("system", "be careful"),
    says("user", "the port is 8080"),
    says("assistant", "noted"),
    says("user", "make it 9090"),
    says("assistant", "done in config.toml"),
    says("user", "thanks"),
    says("assistant", "welcome"),
]


def test_a_view_has_system_rows_pins_a_header_and_a_tail():
    summary = '<summary messages="2-4">\nport 8080 became 9090\n</summary>'
    view = [LOG[0], LOG[1], header(PREFACE, summary, END), LOG[3], *LOG[5:]]
    assert view_parts(view, LOG) == ["system", "pin", "header", "pin", "tail", "tail"]


def test_only_our_own_message_is_a_header_and_without_one_all_but_the_leading_rows_is_tail():
    assert view_parts(LOG, LOG) == ["system", *["tail"] * 6]
    assert view_parts([header("[12 earlier messages left out]")], LOG) == ["header"]
    assert view_parts([header("[interrupted]"), says("user", PREFACE)], LOG) == ["tail", "tail"]

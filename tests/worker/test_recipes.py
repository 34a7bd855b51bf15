"""What a summarizer is asked, and the hashes that name it."""

from __future__ import annotations

from summarizing_context.log.entries import recipe_hash
from summarizing_context.log.missing_summaries import Want
from summarizing_context.log.segments import Limits
from summarizing_context.log.tree import Node
from summarizing_context.messages.redaction import Redaction
from summarizing_context.messages.rendering import RENDERER_VERSION
from summarizing_context.settings.values import Settings
from summarizing_context.worker.jobs import Jobs, make_recipe
from tests.making import answer, assistant, one_call, timeline, user
from tests.worker.test_summaries import book

KEY = "-----BEGIN KEY-----\n" + "deadbeef0123\n" * 900 + "-----END KEY-----"


def redact(text: str) -> str:
    start, stop = text.find("-----BEGIN"), text.find("-----END")
    return text[:start] + "(a key)" + text[stop:] if 0 <= start < stop else text


def test_text_is_redacted_before_it_is_cut():
    log = [user("Look."), one_call("a"), answer("a", KEY), assistant("Seen."), user("x " * 9_000)]
    made, lines, passes = book(timeline(log, Limits(2_000, 4_000, 8_000)))
    recipe = make_recipe(Settings(), "model", own=False, redact=Redaction(redact))
    job = Jobs(lines, made, recipe).prepare(Want(Node.leaf(0), lines.hashes[0]))()
    assert "(a key)" in job.content
    assert "deadbeef" not in job.content + "".join(passes.left_out)


def test_cutting_concerns_only_what_a_model_reads():
    model, own = (make_recipe(Settings(), "one", own=own, redact=None) for own in (False, True))
    plain = {"summarizer": "one", "max_tokens": 900, "redacted": False, "kind": "segment", "prompt": None}
    assert own.segment == recipe_hash({**plain, "renderer": RENDERER_VERSION})
    assert model.segment != own.segment


def test_instructions_of_a_users_own_reach_summaries_and_name_them_anew():
    plain, asked = (
        make_recipe(Settings(summary_instructions=more), "one", own=False, redact=None)
        for more in (None, "Name every ticket.")
    )
    for kind, told in (("segment", True), ("rollup", True), ("focus", True), ("memory", False)):
        text = asked.instructions(kind, 1, 400)
        assert text == plain.instructions(kind, 1, 400) + "\n\nName every ticket." * told
    assert asked.memory == plain.memory
    assert not {asked.segment, asked.rollup, asked.focus} & {plain.segment, plain.rollup, plain.focus}
    own = [make_recipe(Settings(summary_instructions=more), "x", own=True, redact=None) for more in (None, "Be terse.")]
    assert own[0].segment == own[1].segment

"""Prompts checked, compared, and put into real requests."""

from __future__ import annotations

from functools import partial
from pathlib import Path

import anyio
import pytest

from summarizing_context.evaluation.prompt_inspection import (
    check_prompts,
    compare_prompts,
    fixed_text,
    jobs_for,
    render_request,
)
from summarizing_context.messages.estimate import estimate_text
from summarizing_context.settings.values import Settings
from summarizing_context.summarizers.prompts import Prompt, load, prompts_root
from summarizing_context.summarizers.sdk import fenced

FOCUS = "---\nname: focus\nversion: {version}\npurpose: p\nplaceholders: {places}\n---\n"
SMALL = Settings(segment_min=20, segment_target=200, segment_max=400, summary_max_tokens=20)


def folder_with(root: Path, text: str, name: str = "focus/v7.md", places: str = "max_tokens") -> Path:
    file = root / name
    file.parent.mkdir(parents=True, exist_ok=True)
    version = name.partition("/v")[2].removesuffix(".md")
    file.write_text(FOCUS.format(version=version, places=places) + text, encoding="utf8")
    return root


def words_about(root: Path) -> str:
    return "\n".join(f"{name}: {words}" for name, words in check_prompts(root, estimate_text))


def test_the_shipped_prompts_are_sound():
    assert check_prompts(prompts_root(), estimate_text) == []


@pytest.mark.parametrize(
    ("text", "places", "said"),
    [
        ("{{max_tokens}} " + "word " * 500, "max_tokens", "at most 400 are allowed"),
        ("{{max_tokens}} {{topic}}", "max_tokens, topic", "nothing fills in topic"),
        ("none", "max_tokens", "declares max_tokens"),
    ],
)
def test_an_unsound_prompt_is_complained_of(tmp_path: Path, text: str, places: str, said: str):
    assert said in words_about(folder_with(tmp_path, text, places=places))


def test_a_sound_prompt_of_a_user_gives_no_complaint(tmp_path: Path):
    assert words_about(folder_with(tmp_path, "Keep it under {{max_tokens}} tokens.")) == ""


@pytest.mark.parametrize(("file", "said"), [("focus/V2.md", "name the file like"), ("foccus/v1.md", "nothing asks")])
def test_what_nothing_would_read_is_complained_of(tmp_path: Path, file: str, said: str):
    assert said in words_about(folder_with(tmp_path, "{{max_tokens}}", file))


def test_a_summary_prompt_must_have_the_fixed_sections_in_their_order(tmp_path: Path):
    text = (prompts_root() / "segment" / "v1.md").read_text(encoding="utf-8").replace("version: 1", "version: 7")
    (tmp_path / "segment").mkdir()
    file = tmp_path / "segment" / "v7.md"
    for wrong, said in (("## Finished", "lacks ## Done and has ## Finished besides"), ("## Intent", "lacks ## Done")):
        file.write_text(text.replace("## Done", wrong), encoding="utf8")
        assert said in words_about(tmp_path)
    file.write_text(text, encoding="utf8")
    assert words_about(tmp_path) == ""


def test_the_fixed_text_is_that_of_the_longest_rank():
    prompt = Prompt("rollup", 1, "p", "{{focus}} {{max_tokens}}", ("a", "a long one", "b"))
    assert fixed_text(prompt) == "a long one 400"


def test_a_comparison_shows_the_lines_that_changed():
    old, new = (Prompt("focus", 1, "p", f"one\ntwo {word} four\nfive") for word in ("three", "3"))
    changed = [change for change in compare_prompts(old, new) if change.sign in "+-"]
    assert [(change.sign, change.text) for change in changed] == [("-", "two three four"), ("+", "two 3 four")]


def test_equal_prompts_differ_in_nothing():
    assert compare_prompts(load("segment/v1"), load("segment/v1")) == []


def test_a_rendered_request_is_what_a_provider_would_get():
    messages = [{"role": "user", "content": f"{at} " + "please look at the log again " * 30} for at in range(16)]
    for purpose in ("segment", "focus"):
        jobs = anyio.run(partial(jobs_for, messages, SMALL, purpose=purpose, topic="the log"))
        rendered = render_request(load(f"{purpose}/v1"), jobs, 1, estimate_text)
        texts = {
            slot: "".join(part.text for part in rendered.parts if part.slot == slot) for slot in ("system", "user")
        }
        assert texts == {"system": load(f"{purpose}/v1").render(max_tokens=20), "user": fenced(jobs[0])}
        assert rendered.fixed_tokens < rendered.tokens == sum(part.tokens for part in rendered.parts)
    assert "### topic\nthe log" in texts["user"]

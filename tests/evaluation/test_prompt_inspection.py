"""Prompts checked, and put into real requests. Comparison and rendering are tested with the command."""

from __future__ import annotations

from pathlib import Path

import pytest

from summarizing_context.evaluation.prompt_inspection import check_prompts
from summarizing_context.messages.estimate import estimate_text
from summarizing_context.summarizers.prompts import prompts_root

FRONT = "---\nname: {name}\nversion: {version}\npurpose: p\nplaceholders: {places}\n---\n"


def complaints(root: Path, text: str, *, file: str = "focus/v7.md", places: str = "max_tokens") -> str:
    path = root / file
    path.parent.mkdir(parents=True, exist_ok=True)
    name, _, version = file.removesuffix(".md").partition("/v")
    path.write_text(FRONT.format(name=name, version=version, places=places) + text, encoding="utf8")
    return "\n".join(f"{name}: {words}" for name, words in check_prompts(root, estimate_text))


def test_sound_prompts_give_no_complaint(tmp_path: Path):
    assert check_prompts(prompts_root(), estimate_text) == []
    assert complaints(tmp_path, "Keep it under {{max_tokens}} tokens.") == ""


@pytest.mark.parametrize(
    ("text", "more", "said"),
    [
        ("{{max_tokens}} " + "word " * 500, {}, "at most 400 are allowed"),
        ("{{max_tokens}} {{topic}}", {"places": "max_tokens, topic"}, "nothing fills in topic"),
        ("none", {}, "declares max_tokens"),
        ("{{max_tokens}}", {"file": "focus/V2.md"}, "name the file like"),
        ("{{max_tokens}}", {"file": "foccus/v1.md"}, "nothing asks"),
    ],
)
def test_an_unsound_prompt_is_complained_of(tmp_path: Path, text: str, more: dict[str, str], said: str):
    assert said in complaints(tmp_path, text, **more)


def test_a_summary_prompt_must_have_the_fixed_sections_in_their_order(tmp_path: Path):
    text = (prompts_root() / "segment" / "v1.md").read_text(encoding="utf-8").partition("\n---\n")[2]
    for wrong, said in (("## Finished", "lacks ## Done and has ## Finished besides"), ("## Intent", "lacks ## Done")):
        assert said in complaints(tmp_path, text.replace("## Done", wrong), file="segment/v7.md")


def test_a_rollup_may_say_something_else_at_each_rank(tmp_path: Path):
    text = (prompts_root() / "rollup" / "v1.md").read_text(encoding="utf-8").partition("\n---\n")[2]
    places = "focus, max_tokens\nfocus_1: the parts\nfocus_2: the whole"
    assert complaints(tmp_path, f"{{{{focus}}}} {text}", file="rollup/v7.md", places=places) == ""

"""The prompt library: found, checked, rendered, hashed."""

from pathlib import Path
from typing import Any

import pytest

from summarizing_context.errors import PromptError
from summarizing_context.evaluation.tune import check_prompt
from summarizing_context.summarizers import prompts as prompt_library
from summarizing_context.summarizers.prompts import latest, load
from tests.exact_counts import exact_counter

SHIPPED = ["answers", "compaction", "focus", "marks", "memory", "proposal", "questions", "rollup", "rules", "segment"]


def prompt_file(root: Path, content: str, version: int = 1) -> Path:
    (root / "segment").mkdir(exist_ok=True)
    (root / "segment" / f"v{version}.md").write_text(content, encoding="utf-8")
    return root


def front(version: int = 1, placeholders: str = "size", more: str = "") -> str:
    return f"---\nname: segment\nversion: {version}\npurpose: p\nplaceholders: {placeholders}\n{more}---\n"


def test_one_prompt_of_each_purpose_is_shipped():
    newest = {"rollup": 4, "segment": 3}
    assert prompt_library.names() == [f"{purpose}/v{newest.get(purpose, 1)}" for purpose in SHIPPED]


def test_a_shipped_prompt_keeps_the_rules_for_prompts():
    assert [fault for name in prompt_library.names() for fault in check_prompt(load(name))] == []
    for purpose in ("segment", "rollup"):
        assert exact_counter().count(latest(purpose).render(max_tokens=400)) <= 425  # as sent


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ("no front matter", "front matter"),
        (front(), "then its text"),
        (front(version=2) + "{{size}}", "says segment/v2"),
        (front(placeholders="size, more") + "{{size}}", "declares more, size"),
        (front() + "{{size}} {{more}}", "its text has more, size"),
        (front(more="colour: red\n") + "{{size}}", "'colour: red'"),
        (front(more="name: segment\n") + "{{size}}", "repeats a key"),
        ("---\nname: segment\n---\ntext", "lacks placeholders, purpose, version"),
    ],
)
def test_a_malformed_file_is_a_prompt_error(tmp_path: Path, content: str, said: str):
    with pytest.raises(PromptError, match=said):
        load("segment/v1", root=prompt_file(tmp_path, content))


@pytest.mark.parametrize("name", ["segment", "segment/v0", "../segment/v1", "segment/v99", "nothing", "..", "", None])
def test_a_name_that_leads_nowhere_is_a_prompt_error(name: Any):
    with pytest.raises(PromptError):
        load(name)
    if name != "segment":
        with pytest.raises(PromptError):
            latest(name)


def test_rendering_fills_every_placeholder_once_and_the_hash_covers_the_text_but_not_the_purpose(tmp_path: Path):
    root = prompt_file(tmp_path, front(placeholders="a, b") + "{{a}} {{b}} {{a}} {b}")
    assert load("segment/v1", root=root).render(a="{{b}}", b=5) == "{{b}} 5 {{b}} {b}"

    def hash_of(content: str) -> str:
        return load("segment/v1", root=prompt_file(tmp_path, content)).hash

    plain = hash_of(front() + "{{size}}")
    assert hash_of(front().replace("purpose: p", "purpose: q") + "{{size}}") == plain
    assert hash_of((front() + "{{size}}").replace("\n", "\r\n")) == plain
    assert hash_of(front() + "{{size}}.") != plain

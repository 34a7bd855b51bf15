"""The prompt library: found, checked, rendered, hashed."""

from pathlib import Path
from typing import Any

import pytest

from summarizing_context import Settings, open_context
from summarizing_context.errors import PromptError
from summarizing_context.evaluation.tune import check_prompt
from summarizing_context.summarizers import prompts as prompt_library
from summarizing_context.summarizers.prompts import latest, load
from tests.exact_counts import exact_counter

SHIPPED = ["answers", "compaction", "marks", "memory", "proposal", "questions", "rollup", "rules", "segment"]


def prompt_file(root: Path, content: str, version: int = 1) -> Path:
    (root / "segment").mkdir(exist_ok=True)
    (root / "segment" / f"v{version}.md").write_text(content, encoding="utf-8")
    return root


FRONT = "---\npurpose: p\n---\n"


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
        (FRONT, "then its text"),
        ("---\nname: segment\n---\ntext", "with its `purpose"),
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


async def test_a_placeholder_that_nothing_fills_is_refused_on_opening(tmp_path: Path):
    prompts = prompt_file(tmp_path, FRONT + "{{max_tokens}} {{more}}")
    with pytest.raises(PromptError, match="segment/v1: more is wanted"):
        await open_context(Settings(prompts=prompts)).__aenter__()


def test_rendering_fills_every_placeholder_once_and_the_hash_covers_the_text_but_not_the_purpose(tmp_path: Path):
    root = prompt_file(tmp_path, FRONT + "{{a}} {{b}} {{a}} {b}")
    assert load("segment/v1", root=root).render(a="{{b}}", b=5) == "{{b}} 5 {{b}} {b}"

    def hash_of(content: str) -> str:
        return load("segment/v1", root=prompt_file(tmp_path, content)).hash

    plain = hash_of(FRONT + "{{size}}")
    assert hash_of(FRONT.replace("purpose: p", "purpose: q") + "{{size}}") == plain
    assert hash_of((FRONT + "{{size}}").replace("\n", "\r\n")) == plain
    assert hash_of(FRONT + "{{size}}.") != plain

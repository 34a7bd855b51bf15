"""The prompt library: found, checked, rendered, hashed."""

from itertools import product
from pathlib import Path
from typing import Any

import pytest

from summarizing_context import Settings, open_context
from summarizing_context.errors import PromptError
from summarizing_context.evaluation.tune import check_prompt, read_variants
from summarizing_context.summarizers.prompts import latest, load, names
from tests.exact_counts import exact_counter

FRONT = "---\npurpose: p\n---\n"


def prompts(root: Path, content: str) -> Path:
    """A folder with one prompt of one's own."""
    (root / "segment").mkdir(exist_ok=True)
    (root / "segment" / "v1.md").write_text(content, encoding="utf-8")
    return root


def test_a_shipped_prompt_keeps_the_rules_for_prompts():
    assert [fault for name in names() for fault in check_prompt(load(name))] == []
    for purpose in ("segment", "rollup"):
        assert exact_counter().count(latest(purpose).render(max_tokens=400)) <= 425  # as sent


async def test_a_file_that_cannot_serve_and_a_name_that_leads_nowhere_are_prompt_errors(tmp_path: Path):
    lacking = (
        ("no front matter", "front matter"),
        (FRONT, "then its text"),
        ("---\nname: a\n---\nb", "with its `purpose"),
    )
    for content, said in lacking:
        with pytest.raises(PromptError, match=said):
            load("segment/v1", root=prompts(tmp_path, content))
    with pytest.raises(PromptError, match="segment/v1: its placeholders are max_tokens, more; they must be max_tokens"):
        await open_context(Settings(prompts=prompts(tmp_path, FRONT + "{{max_tokens}} {{more}}"))).__aenter__()
    (tmp_path / "segmnet").mkdir()
    prompts(tmp_path, FRONT + "{{max_tokens}}").joinpath("segment/v1.md").rename(tmp_path / "segmnet" / "v1.md")
    with pytest.raises(PromptError, match="segmnet is no purpose"):
        await open_context(Settings(prompts=tmp_path)).__aenter__()
    nowhere: tuple[Any, ...] = ("segment/v0", "../segment/v1", "segment/v99", "nothing", "..", "", None)
    for find, name in [(load, "segment"), *product((load, latest), nowhere)]:
        with pytest.raises(PromptError):
            find(name)


def test_rendering_fills_every_placeholder_once_and_the_hash_covers_the_text_but_not_the_purpose(tmp_path: Path):
    root = prompts(tmp_path, FRONT + "{{a}} {{b}} {{a}} {b}")
    assert load("segment/v1", root=root).render(a="{{b}}", b=5) == "{{b}} 5 {{b}} {b}"
    plain = FRONT + "{{size}}"
    contents = (plain, plain.replace("purpose: p", "purpose: q"), plain.replace("\n", "\r\n"), plain + ".")
    hash, *same, other = [load("segment/v1", root=prompts(tmp_path, content)).hash for content in contents]
    assert {*same} == {hash} != {other}


def test_prompts_to_try_are_read_from_files_and_written_once_as_the_next_version(tmp_path: Path):
    mine, folder, shipped = tmp_path / "mine.md", tmp_path / "prompts", latest("segment")
    mine.write_text(f"{FRONT}{shipped.text}\n- Keep every id.\n", encoding="utf-8")
    start, tried, again = read_variants([mine, str(mine)])
    assert (start.name, start.prompts) == ("start", ())
    assert (tried.name, again.name) == ("mine", "mine (2)")
    assert tried.write(folder) == again.write(folder) == [folder / "segment" / f"v{shipped.version + 1}.md"]
    assert latest("segment", root=folder).text == tried.prompt("segment").text != shipped.text
    assert read_variants([], folder)[0].prompts[0].text == tried.prompt("segment").text
    with pytest.raises(PromptError, match="nowhere is no prompt"):
        read_variants([tmp_path / "nowhere"])

"""The prompt library: found, checked, rendered, hashed; and the prompts that were released."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from summarizing_context.errors import PromptError
from summarizing_context.summarizers import prompts as prompt_library
from summarizing_context.summarizers.prompts import latest, load
from tests.exact_counts import exact_counter

# A released prompt is never edited, for its hash is in the keys of stored summaries: make a new version instead.
RELEASED = {
    "answers/v1": "71a1d78d29fc57c5838c5aa54ae51949fcbd0acc4e799f58b5620dc5b07624d5",
    "compaction/v1": "1a0119fde45d353756a0b4fd1936317521428c4481098c1351eb82401026ab09",
    "focus/v1": "c361f833aa5f1f6ae3bc36ebb4efcce18ac4deb60b16f1ab85fb188378e2ca2e",
    "focus/v2": "2e2ec07c4f489a8fcf2449dbadd76327c2f4b41690fdfb4709413ebb954cd10d",
    "marks/v1": "0301cdf8b6191b5dd92a1449ddf7b7885339cd162b3e668259b424a7ef749417",
    "memory/v1": "1c90518186a51e97744ef4f0a2df752a9c8350a91a78b3c381ed210a5056aa18",
    "proposal/v1": "fd1c0a133e580d4bead172292aa44518b04e267866cb45da6a0da2c702d3208b",
    "questions/v1": "f3a8f7488b381e02b005c1c587277207d780b357136eca003e3619be9c564dc6",
    "rollup/v1": "d4f247f6bc42b25c8035aa0a8d67df13b2e3fa6b59898d20c5131c5431332dbf",
    "rollup/v2": "ac4f4e035d4c1079170ccfa91d43d4142b3c789a3516dbb1674af197df244a82",
    "rollup/v3": "a2c0cf2340588a093dca1acf9a531b50c3cc9307d15316028e74f45a72336073",
    "rollup/v4": "2f443153ce3d988bbd693f040ffb6d4f8d5e24cec2c37f5fbc720b16694fbad2",
    "rollup/v5": "87bd7b9e01924e4117eb6905c7d0018ee44e10304a65d163e85101855885825c",
    "rules/v1": "36336c1c3d77e74be6827101f81432e0d307549f3a67a79b8c2a62691f344175",
    "segment/v1": "1537e25605f60bc6afbce1cdc6208364be0c9eb53960e4a07e9c4881ff8c992c",
    "segment/v2": "42fdaf74b98caf0629f83ecddd3fe31988462fe17a59adf7dfbbceba7ba0b3dd",
    "segment/v3": "7afb568969215984528741389895d5090231161ae0c1ddb7d14fd8065991eab9",
    "segment/v4": "dced88185d104badc8a58b9b48e09aeb30572232a1f9d597811b6295f17ca9e0",
}
SECTIONS = [
    "## Intent",
    "## Constraints and corrections",
    "## Done",
    "## Decisions",
    "## Errors and fixes",
    "## State and next step",
    "## Facts",
]


def prompt_file(root: Path, content: str, version: int = 1) -> Path:
    (root / "segment").mkdir(exist_ok=True)
    (root / "segment" / f"v{version}.md").write_text(content, encoding="utf-8")
    return root


def front(version: int = 1, placeholders: str = "size", more: str = "") -> str:
    return f"---\nname: segment\nversion: {version}\npurpose: p\nplaceholders: {placeholders}\n{more}---\n"


def test_every_prompt_in_the_folder_is_a_released_one_and_was_not_edited():
    folders = [folder for folder in prompt_library.prompts_root().iterdir() if folder.is_dir()]
    names = [f"{folder.name}/{file.name.removesuffix('.md')}" for folder in folders for file in folder.iterdir()]
    assert {name: load(name).hash for name in sorted(names)} == RELEASED == prompt_library.released()


def test_prompts_are_listed_by_purpose_and_version():
    assert prompt_library.names() == list(RELEASED)


@pytest.mark.parametrize("rank", [0, 1, 2, 3, 9])
def test_a_prompt_as_sent_costs_at_most_400_tokens(rank: int):
    sent = latest("rollup" if rank else "segment").render_for_rank(rank, max_tokens=400)
    assert exact_counter().count(sent) <= 400


@pytest.mark.parametrize("name", ["answers", "compaction", "focus", "marks", "proposal", "questions"])
def test_a_prompt_that_is_the_same_for_all_costs_at_most_400_tokens(name: str):
    prompt = latest(name)
    assert exact_counter().count(prompt.render(**dict.fromkeys(prompt.placeholders, 400))) <= 400


@pytest.mark.parametrize("name", ["rollup/v1", "segment/v1"])
def test_a_prompt_names_the_fixed_sections_in_their_order(name: str):
    assert [line for line in load(name).text.splitlines() if line.startswith("## ")] == SECTIONS


def test_the_focus_of_a_rollup_depends_on_its_rank_up_to_the_third():
    rollup = load("rollup/v1")
    sent = [rollup.render_for_rank(rank, max_tokens=400) for rank in (1, 2, 3, 4)]
    assert len(set(sent)) == 3
    assert sent[2] == sent[3]


def test_the_latest_version_is_the_highest_number(tmp_path: Path):
    for version in (2, 10, 9):
        prompt_file(tmp_path, front(version) + "{{size}}", version)
    assert latest("segment", root=tmp_path).version == 10


def test_rendering_fills_every_placeholder_once(tmp_path: Path):
    root = prompt_file(tmp_path, front(placeholders="a, b") + "{{a}} {{b}} {{a}} {b}")
    assert load("segment/v1", root=root).render(a="{{b}}", b=5) == "{{b}} 5 {{b}} {b}"


@pytest.mark.parametrize(
    ("values", "said"),
    [({}, "no value for size"), ({"size": 1, "sise": 2}, "no place for sise"), ({"x": 1}, "no value for size and no")],
)
def test_rendering_refuses_missing_and_unknown_values(tmp_path: Path, values: dict[str, Any], said: str):
    prompt = load("segment/v1", root=prompt_file(tmp_path, front() + "{{size}}"))
    with pytest.raises(PromptError, match=said):
        prompt.render(**values)


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
        (front(more="focus_2: x\n") + "{{size}}", "without a gap"),
        (front(more="focus_1: x\n") + "{{size}}", "1 focuses"),
        ("---\nname: segment\n---\ntext", "lacks placeholders, purpose, version"),
    ],
)
def test_a_malformed_file_is_a_prompt_error(tmp_path: Path, content: str, said: str):
    with pytest.raises(PromptError, match=said):
        load("segment/v1", root=prompt_file(tmp_path, content))


@pytest.mark.parametrize("name", ["segment", "segment/v0", "../segment/v1", "segment/v99", "", None])
def test_a_name_that_leads_nowhere_is_a_prompt_error(name: Any):
    with pytest.raises(PromptError):
        load(name)


@pytest.mark.parametrize("name", ["nothing", "", "..", None])
def test_a_purpose_without_a_prompt_is_a_prompt_error(name: Any):
    with pytest.raises(PromptError):
        latest(name)


def test_a_file_that_is_not_text_is_a_prompt_error(tmp_path: Path):
    root = prompt_file(tmp_path, "")
    (root / "segment" / "v1.md").write_bytes(b"\xff\xfe")
    with pytest.raises(PromptError, match="cannot be read"):
        load("segment/v1", root=root)


def test_the_hash_covers_text_and_focuses_but_not_the_purpose(tmp_path: Path):
    def hash_of(content: str) -> str:
        return load("segment/v1", root=prompt_file(tmp_path, content)).hash

    plain = hash_of(front() + "{{size}}")
    assert hash_of(front().replace("purpose: p", "purpose: q") + "{{size}}") == plain
    assert hash_of((front() + "{{size}}").replace("\n", "\r\n")) == plain
    assert hash_of(front() + "{{size}}.") != plain
    one, two = (front(placeholders="focus", more=f"focus_1: {focus}\n") + "{{focus}}" for focus in "ab")
    assert hash_of(one) != hash_of(two)

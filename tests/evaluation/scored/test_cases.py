"""Cases: exact values, hindsight labels, files, lint, the generator."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from summarizing_context.errors import SettingsError, TranscriptError
from summarizing_context.evaluation.cases.facts import domain_names, load_domain
from summarizing_context.evaluation.cases.hindsight import with_hindsight, without_margins
from summarizing_context.evaluation.cases.sessions import Recipe, generate_case
from summarizing_context.evaluation.cases.sources import (
    folder_sources,
    read_case,
    read_unsealed,
    seal,
    short_names,
    sidecar_path,
    write_case,
)
from summarizing_context.evaluation.cases.verdicts import lint_case
from summarizing_context.evaluation.laws import LogIndex, ViewChecker, canonical
from summarizing_context.extraction.values import find_entities
from tests.evaluation.scored.building import FILLER, call, case, generated, probe, says
from tests.privacy import open_to_others

ROOT = Path(__file__).parents[3]


@pytest.mark.parametrize(
    ("kind", "value"),
    [
        ("path", "src/core/view.py"),
        ("path", "notes.md"),
        ("url", "https://example.com/a?b=1"),
        ("mail", "kim@example.com"),
        ("hash", "8c41d2e"),
        ("date", "2026-03-09"),
        ("id", "HAT-215"),
        ("id", "#4711"),
        ("number", "1,284.50"),
        ("name", "roll_over_midnight"),
        ("name", "parseClock"),
        ("quoted", "never mind that"),
    ],
)
def test_an_exact_value_is_found(kind: str, value: str):
    shown = f'"{value}"' if kind == "quoted" else value
    assert (kind, value) in find_entities(f"see {shown}, please.")


def test_plain_words_and_fractions_are_no_values():
    assert find_entities("and/or 5 of it, e.g. this; 3rd time in 20ms") == []


def test_what_a_later_call_uses_is_labelled():
    log = [says("user", "look at src/parser.py"), *FILLER, call("1", "read", path="src/parser.py")]
    (label,) = with_hindsight(case(log, at=13)).probes
    assert (label.kind, label.literals, label.used_at, label.evidence) == ("used", ("src/parser.py",), 13, (0,))


@pytest.mark.parametrize(
    "log",
    [
        [says("system", "use src/parser.py"), *FILLER, call("1", "read", path="src/parser.py")],  # always shown
        [*FILLER, says("user", "look at src/parser.py"), call("1", "read", path="src/parser.py")],  # in the newest part
        [says("user", "src/parser.py"), *FILLER, call("1", "write", text="src/parser.py " * 60)],  # content
    ],
)
def test_what_needs_no_memory_is_not_labelled(log: list[dict[str, object]]):
    assert with_hindsight(case(log, at=13)).probes == ()


@pytest.mark.parametrize(("numbers", "labelled"), [((1208, 1209, 1210), False), ((1108, 1209, 1410), True)])
def test_a_number_that_only_counts_lines_was_not_seen(numbers: tuple[int, ...], labelled: bool):
    listing = "\n".join(f"{number}:  some words" for number in numbers)
    log = [says("user", listing), *FILLER, call("1", "read", offset=1209)]
    assert len(with_hindsight(case(log, at=13)).probes) == labelled


def test_what_was_seen_anew_is_not_labelled():
    log = [
        says("user", "src/parser.py"),
        *FILLER,
        says("user", "I mean src/parser.py"),
        call("1", "read", path="src/parser.py"),
    ]
    assert with_hindsight(case(log, at=13)).probes == ()


def test_a_case_survives_its_file(tmp_path: Path):
    made = generated()
    assert read_case(write_case(made, tmp_path), budget=1) == replace(made, group="")


def test_a_changed_transcript_is_refused_until_it_is_sealed(tmp_path: Path):
    path = write_case(generated(), tmp_path)
    assert open_to_others(tmp_path) == []
    path.write_text(path.read_text("utf8").replace("Ramona", "Romana", 1), encoding="utf8")
    path.write_text(path.read_text("utf8") + json.dumps(says("user", "one more")) + "\n", encoding="utf8")
    with pytest.raises(TranscriptError, match="hash does not fit"):
        read_case(path, budget=1)
    seal(path)
    assert read_case(path, budget=1).messages[-1]["content"] == "one more"


def test_a_sidecar_with_an_unknown_field_is_refused(tmp_path: Path):
    path = write_case(generated(), tmp_path)
    sidecar_path(path).write_text('{"cuts": [], "probes": [], "colour": "red"}', encoding="utf8")
    with pytest.raises(TranscriptError, match="colour"):
        read_unsealed(path)


def test_a_message_that_no_context_takes_is_told_with_its_line(tmp_path: Path):
    path = tmp_path / "log.jsonl"
    path.write_text('{"role": "user", "content": "hi"}\n{"content": "who says this?"}\n', encoding="utf8")
    with pytest.raises(TranscriptError, match=r"log\.jsonl:2: .*'role' is missing"):
        read_case(path, budget=1)


def test_each_session_of_a_file_is_a_case_of_its_own(tmp_path: Path):
    path = tmp_path / "tuning.jsonl"
    sessions = [[says("user", "hi"), says("assistant", name)] for name in ("one", "two")]
    path.write_text("".join(json.dumps({"messages": messages}) + "\n" for messages in sessions), encoding="utf8")
    cases = [source.read() for source in folder_sources([tmp_path], budget=1_000)]
    assert [case.id for case in cases] == ["tuning#tuning:1", "tuning#tuning:2"]
    assert [case.messages[1]["content"] for case in cases] == ["one", "two"]


def test_files_of_one_name_in_several_folders_are_several_sessions():
    files = [Path(name) for name in ("logs/a/one.jsonl", "logs/b/one.jsonl", "logs/b/one.jsonl.gz", "logs/b/two.jsonl")]
    names = ["a/one.jsonl", "b/one.jsonl", "one.jsonl.gz", "two"]
    assert list(short_names(files).values()) == names


SOUND = [says("user", "The port is 9090. Never push."), *FILLER]


def test_a_sound_case_has_no_complaint():
    asked = probe("recall", "9090", cut=13, evidence=(0,))
    assert lint_case(case(SOUND, asked)) == []


@pytest.mark.parametrize(
    ("wrong", "words"),
    [
        (probe("recall", "8080", cut=13, evidence=(0,)), "does not stand in its evidence"),
        (probe("recall", "12 more", cut=13, evidence=(0,)), "does not stand in its evidence"),
        (probe("recall", "11 more", cut=13, evidence=(12,)), "leaks"),
        (probe("recall", "9090", cut=13, evidence=(13,)), "before the cut"),
        (probe("recall", "9090", cut=7, evidence=(0,)), "where it is not cut"),
        (probe("recall", cut=13), "nothing would be looked for"),
        (probe("supersession", "9090", cut=13, evidence=(0,)), "outdated value"),
        (probe("abstention", "9090", cut=13), "abstention expects nothing"),
        (probe("abstention", cut=13, forbid=("Never push",)), "does not answer it"),
    ],
)
def test_lint_complains_of(wrong, words: str):
    assert any(words in complaint.words for complaint in lint_case(case(SOUND, wrong)))


def test_the_written_cases_are_sealed_and_sound():
    files = sorted((ROOT / "evals" / "data").glob("*.jsonl"))
    assert len(files) >= 12
    assert [lint_case(read_case(file, budget=1)) for file in files] == [[] for _ in files]


def test_the_written_cases_hold_markup():
    text = "".join(file.read_text("utf8") for file in (ROOT / "evals" / "data").glob("*.jsonl"))
    assert "<script>" in text
    assert "</style>" in text


def test_the_same_seed_writes_the_same_session():
    recipe = Recipe(domain="travel", seed=3, tokens=4_000, budget=2_000)
    assert generate_case(recipe) == generate_case(recipe)
    assert generate_case(replace(recipe, seed=4)).messages != generate_case(recipe).messages


@pytest.mark.parametrize("domain", domain_names())
def test_every_domain_gives_sound_sessions_that_a_provider_would_take(domain: str):
    made = generated(domain)
    log = LogIndex()
    for message in made.messages:
        log.add(message)
    checker = ViewChecker(log)
    checker.look(made.messages, [canonical(message) for message in made.messages], common=0)
    assert not checker.tool_unsafe()
    assert lint_case(made) == []
    assert {probe.kind for probe in made.probes} >= {"used", "constraint"}


def test_an_unknown_domain_is_refused_with_the_known_ones():
    with pytest.raises(SettingsError, match="software"):
        load_domain("gardening")


@pytest.mark.parametrize("mark", ["\t", "→", ":", "|"])
def test_numbers_that_count_the_lines_of_a_listing_are_left_out(mark: str) -> None:
    listing = "".join(f"{number:6}{mark}line of {number + 5000}\n" for number in range(1208, 1212))
    assert (
        without_margins(f"seen:\n{listing}end")
        == "seen:\n" + "".join(f"{mark}line of {number + 5000}\n" for number in range(1208, 1212)) + "end"
    )


@pytest.mark.parametrize(
    "text",
    [
        "1208:def one():\n1309:def two():\n1310:def three():\n1400:end",  # hits of a search
        "1208\tsum\n1209\tcount",  # two rows of a table
        "1208: a\n\n1209: b\n\n1210: c",  # not one below the other
        "no numbers\nat all",
        "",
    ],
)
def test_other_numbers_at_the_beginning_of_lines_stay(text: str) -> None:
    assert without_margins(text) == text

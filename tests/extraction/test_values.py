"""Exact values in a text, and those that a summary does not hold of its source."""

from __future__ import annotations

import gc

import pytest

from summarizing_context.extraction.values import MOST_DROPS, exact_values, find_drops, kind_of, word_parts
from summarizing_context.retrieval.values import MessageValues, Query, ValueLine, chosen_lines, gather, likelihoods


@pytest.mark.parametrize(
    ("text", "values"),
    [
        ("see src/app.py:123 and ./x.ts, or ~/notes", ["src/app.py", "./x.ts"]),
        ("https://x.io/a?b=c. Ask a.b@c.de", ["https://x.io/a?b=c", "a.b@c.de"]),
        ("HAT-215, #1234 at 9f3e1c2", ["HAT-215", "#1234", "9f3e1c2"]),
        ("the readFile of parse_args in v2 took 120ms", ["readFile", "parse_args"]),
        ("it cost 1,234,500.20 or 12 or 4500", ["1,234,500.20", "4500"]),
        ("  1204\tdef f():\n  1205\tfoo_bar()", ["foo_bar"]),
        ("src/app.py-12-  x\nsrc/app.py:13:y\nlib/main.go-7-", ["src/app.py", "lib/main.go"]),  # around hits
        ("build-2024 of rc.1-2", ["build-2024"]),
        ("plain words, e.g. these; nothing else.", []),
    ],
)
def test_exact_values_are_found_and_plain_words_are_not(text: str, values: list[str]) -> None:
    assert exact_values(text) == values


def test_names_and_paths_are_made_of_words() -> None:
    assert word_parts("readFile src/parse_args HTTP") == {"read", "file", "src", "parse", "args", "http"}


def test_used_recent_and_related_values_go_first() -> None:
    messages = [
        (0, MessageValues(("old_one", "billing_key"), ())),
        (1, MessageValues(tuple(f"filler_{n}" for n in range(200)), ())),
        (2, MessageValues((), ("src/used.py",))),
        (900, MessageValues(("new_one",), ())),
    ]
    query = Query(word_parts("billing"), 1_000, {})
    chosen = chosen_lines(gather(messages, query), {"new_one"}, query, 26, lambda text: (len(text) + 3) // 4)
    lines = [line.text for line in chosen]
    assert lines[0].startswith("0: billing_key")
    assert "2: src/used.py" in lines
    assert "new_one" not in " ".join(lines)
    assert " ".join(lines).count("filler") < 8


def test_what_the_newest_calls_work_on_goes_before_the_rest() -> None:
    beside = [f"worker_{n}" for n in range(40)]
    messages = [
        (1, MessageValues(("lib/one.py", "lib/two.py", "other/three.py", "x_near"), ())),
        (2, MessageValues(("docs/four.py", "docs/five.py", "other/six.py", "x_far"), ())),
        (3, MessageValues(tuple(beside), ())),
    ]
    query = Query(frozenset(), 10, {}, frozenset({"lib/one.py"}))
    known = gather(messages, query)
    likely = dict(zip((value.value for value in known), likelihoods(known, query), strict=True))
    assert likely["lib/two.py"] > likely["other/three.py"] > likely["docs/four.py"]  # its folder; its message; neither
    assert likely["x_near"] > likely["x_far"]


@pytest.mark.parametrize(
    ("value", "kind"),
    [
        ("https://x.io/a", "url"),
        ("src/app.py", "path"),
        ("$1,234", "number"),
        ("0.3186", "decimal"),
        ("a.b@c.de", "mail"),
        ("self.name", "dotted"),
        ("app.py", "word"),
        ("671c5a", "hex"),
        ("facade", "word"),
        ("HAT-215", "word"),
    ],
)
def test_a_value_is_of_one_kind(value: str, kind: str) -> None:
    assert kind_of(value) == kind


def test_paths_of_one_folder_stand_together_and_cite_the_messages_that_hold_them() -> None:
    messages = [(3, MessageValues((), ("src/a/one.py", "src/a/two.py"))), (7, MessageValues((), ("src/a/three.py",)))]
    query = Query(frozenset(), 8, {})
    (line,) = chosen_lines(gather(messages, query), (), query, 100, len)
    assert sorted(line.places) == [3, 7]
    folder, names = line.text.partition(": ")[2].split("{")
    assert folder == "src/a/"
    assert sorted(names.rstrip("}").split(",")) == ["one.py", "three.py", "two.py"]


def test_what_can_be_read_off_a_path_is_not_listed_again() -> None:
    messages = [(3, MessageValues((), ("src/app_main.py",))), (2, MessageValues(("app_main.py",), ()))]
    query = Query(frozenset(), 4, {})
    assert chosen_lines(gather(messages, query), (), query, 100, len) == [ValueLine((3,), "3: src/app_main.py")]


def test_lines_fill_their_room_and_never_exceed_it() -> None:
    names = tuple(f"name_{n}" for n in range(400))
    messages = [(n, MessageValues((name, f"lib_{n % 9}/src/{name}.py"), ())) for n, name in enumerate(names)]
    query = Query(frozenset(), 400, {})
    known = gather(messages, query)
    for room in (200, 500, 1_000):
        text = "\n".join(line.text for line in chosen_lines(known, (), query, room, len))
        assert 0.9 * room <= len(text) <= room


def test_paths_of_one_message_stand_in_its_line() -> None:
    query = Query(frozenset(), 8, {})
    known = gather([(3, MessageValues(("a_name", "lib/x.py", "src/y.py"), ()))], query)
    (line,) = chosen_lines(known, (), query, 100, len)
    assert line.places == (3,)
    assert sorted(line.text.removeprefix("3: ").split()) == ["a_name", "lib/x.py", "src/y.py"]


def test_no_garbage_collection_looks_through_what_is_known_of_values() -> None:
    values = gather([(0, MessageValues(("src/a.py", "HAT-215"), ("src/b.py",)))], Query(frozenset(), 1, {}))
    assert len(values) == 3
    assert not any(map(gc.is_tracked, values))


SOURCE = (
    '### user\nFix src/a.py for HAT-215.\n### assistant calls read\n{"path": "src/b.py"}\n'
    "### result of read\nsrc/a.py, src/c.py, 2026-03-09T14:30, 100\n### assistant\nHAT-215 is about src/b.py."
)


def test_drops_are_what_is_not_told_the_most_used_first():
    assert find_drops(SOURCE, "- Fixed `src/A.py`.") == ("HAT-215", "src/b.py")
    assert find_drops(SOURCE, "") == ("HAT-215", "src/b.py", "src/a.py")


def test_what_only_results_name_is_no_hint_nor_are_the_names_of_arguments():
    assert find_drops("### result of ls\nsrc/a.py\n### result of ls\nsrc/a.py", "") == ()
    assert find_drops('### assistant calls read\n{"file_path":"a.py","text":"b\\nsrc/c.py"}', "") == (
        "a.py",
        "src/c.py",
    )


def test_drops_are_few():
    source = "### user\n" + " ".join(f"src/f{number}.py" for number in range(40))
    assert len(find_drops(source, "")) == MOST_DROPS


def test_no_half_of_a_value_is_a_drop():
    for mark in (" ", "\n", '"'):
        source = "### user\n" + f"src/a.py{mark}".ljust(1_990, "x") + f"{mark}listCommits in src/b.py"
        assert find_drops(source, "") == ("src/a.py",)


def test_a_value_inside_of_a_longer_one_is_not_told():
    assert find_drops("### user\nHAT-21 and src/a.py", "- HAT-215 is about src/a.pyi.") == ("HAT-21", "src/a.py")
    assert find_drops("### user\nHAT-21 and src/a.py", "- HAT-21: `src/a.py`.") == ()


def test_the_escapes_of_colours_are_no_part_of_a_name():
    source = (
        "### user\n\x1b[2mgetBranches\x1b[0m\n### assistant calls run\n" + r'{"a":"\u001b[2mlistBranches\u001b[22m"}'
    )
    assert find_drops(source, "") == ("getBranches", "listBranches")

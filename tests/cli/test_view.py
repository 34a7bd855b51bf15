"""`view` and `status`: a look into a session that changes nothing."""

import json
from pathlib import Path

import pytest
from cli.commands import Runner, fill_store, says

from summarizing_context.evaluation.demo import demo_session

PARTS = ("system", "pin", "header", "block", "tail")
SHORT = [says("user", "hello \x1b[31m there"), says("assistant", "hi")]


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("store") / "run.db"
    fill_store(path, "long", demo_session(turns=10), max_tokens=6_000)
    return fill_store(path, "short", SHORT)


def test_a_view_has_its_budget_and_its_parts(run: Runner, store):
    log = demo_session(turns=10)
    for given, budget in ((None, 6_000), ("4k", 4_000), (6_000, 6_000), ("9k", 9_000)):  # without one the last one
        more = () if given is None else ("--budget", given)
        document = run("view", "long", "--store", store, *more, "--json", "-").document
        assert document["tokens"] <= document["budget"] == budget
        assert document["tokens"] == sum(row["tokens"] for row in document["messages"])
        numbers = {part: [row["message"] for row in document["messages"] if row["part"] == part] for part in PARTS}
        assert (numbers["header"], numbers["system"]) == ([None], [0])
        assert numbers["block"] == [None]  # the standing rules
        assert all(log[at]["role"] == "user" for at in numbers["pin"])
        assert numbers["tail"] == list(range(numbers["tail"][0], len(log)))
        assert numbers["pin"] or budget != 6_000


def test_status_tells_how_full_the_view_is(run: Runner, store):
    ran = run("status", "long", "--store", store)
    assert ran.status == 0
    assert all(word in ran.out for word in ("of 6,000 tokens", "segments", "made by", "extractive"))
    assert max(map(len, ran.out.splitlines())) <= 100
    document = run("status", "long", "--store", store, "--json", "-").document
    assert document["statistics"]["messages"] == len(demo_session(turns=10))
    assert 0 < document["budget"]["used_tokens"] <= document["budget"]["max_tokens"] == 6_000
    nodes = document["nodes"]
    assert nodes
    assert all(node["start"] < node["stop"] and node["tokens"] > 0 and node["text"] for node in nodes)
    assert [node["start"] for node in nodes[1:]] == [node["stop"] for node in nodes[:-1]]


def test_the_messages_are_shown_and_with_full_as_they_are_sent_and_drive_no_terminal(run: Runner, store):
    ran = run("view", "short", "--store", store)
    assert (ran.status, "\x1b" in ran.out) == (0, False)
    assert all(words in ran.out for words in ("2 messages", "hello ·[31m there"))
    ran = run("view", "short", "--store", store, "--full")
    assert (json.loads(ran.out), "\x1b" in ran.out) == (SHORT, False)
    document = run("view", "long", "--store", store, "--full", "--json", "-").document
    assert json.loads(run("view", "long", "--store", store, "--full").out) == document["messages"]

"""Commands of stored sessions: look into one, search, change it, go back, delete it."""

import io
import json
import shlex
import shutil
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest
from cli.commands import Runner, fill_store, says

from summarizing_context.commands import COMMANDS
from summarizing_context.evaluation.replay import demo_session

PARTS = ("system", "pin", "header", "block", "tail")
DEMO = demo_session(turns=10)
STEPS = [says("assistant", f"Step {n}. " * 60) for n in range(60)]
LOG = [says("user", "The walrus is called Ursula.\x1b[31m"), *STEPS, says("user", "Fix the billing tables")]
SHORT = [says("user", "hello \x1b[31m there"), says("assistant", "billing again, für 5 €")]


@pytest.fixture(scope="module")
def filled(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a store of sessions, for each test to copy."""
    folder = tmp_path_factory.mktemp("filled")
    fill_store(folder / "run.db", "long", DEMO, max_tokens=6_000)
    fill_store(folder / "run.db", "s1", LOG, max_tokens=4_000)
    for name in ("s2", "s4"):
        fill_store(folder / "run.db", name, SHORT, project="harbour")
    return folder


@pytest.fixture
def store(filled: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(filled, tmp_path / "copy")) / "run.db"


def test_a_view_has_its_budget_and_its_parts(run: Runner, store):
    for given, budget in ((None, 6_000), ("4k", 4_000), (6_000, 6_000), ("9k", 9_000)):  # without one the last one
        more = () if given is None else ("--budget", given)
        document = run("view", "long", "--store", store, *more, "--json", "-").document
        assert document["tokens"] <= document["budget"] == budget
        assert document["tokens"] == sum(row["tokens"] for row in document["messages"])
        numbers = {part: [row["message"] for row in document["messages"] if row["part"] == part] for part in PARTS}
        assert (numbers["header"], numbers["system"]) == ([None], [0])
        assert numbers["block"] == [None]  # the standing rules
        assert all(DEMO[at]["role"] == "user" for at in numbers["pin"])
        assert numbers["tail"] == list(range(numbers["tail"][0], len(DEMO)))
        assert numbers["pin"] or budget != 6_000


def test_the_messages_are_shown_and_with_full_as_they_are_sent_and_drive_no_terminal(run: Runner, store):
    ran = run("view", "s2", "--store", store)
    assert (ran.status, "\x1b" in ran.out) == (0, False)
    assert all(words in ran.out for words in ("2 messages", "hello ·[31m there"))
    ran = run("view", "s2", "--store", store, "--full")
    assert (json.loads(ran.out), "\x1b" in ran.out, "für 5 €" in ran.out) == (SHORT, False, True)
    document = run("view", "long", "--store", store, "--full", "--json", "-").document
    assert json.loads(run("view", "long", "--store", store, "--full").out) == document["messages"]


def test_status_tells_how_full_the_view_is(run: Runner, store):
    ran = run("status", "long", "--store", store)
    assert ran.status == 0
    assert all(word in ran.out for word in ("of 6,000 tokens", "segments", "made by", "extractive"))
    assert max(len(line) for line in ran.out.splitlines() if str(store) not in line) <= 100
    document = run("status", "long", "--store", store, "--json", "-").document
    assert document["statistics"]["messages"] == len(DEMO)
    assert 0 < document["budget"]["used_tokens"] <= document["budget"]["max_tokens"] == 6_000
    nodes = document["nodes"]
    assert nodes
    assert all(node["start"] < node["stop"] and node["tokens"] > 0 and node["text"] for node in nodes)
    assert [node["start"] for node in nodes[1:]] == [node["stop"] for node in nodes[:-1]]


def test_a_stored_session_is_asked_and_summarized(run: Runner, store):
    assert "Ursula" in run("recall", "s1", "walrus", "name", "--store", store, "--budget", "4k").out
    assert "No memory" in run("memory", "s1", "walrus", "--store", store).out
    assert run("ledger", "s1", "zebra", "--store", store, "--json", "-").document == {"facts": []}
    shown = run("expand", "s1", "0", "line", "--store", store)
    assert (shown.status, "[message 0: user]" in shown.out, "\x1b" in shown.out) == (0, True, False)
    report = run("summarize", "s1", "walrus", "--store", store, "--budget", "8k", "--json", "-").document
    assert report["activated"]

    id = run("pin", "s1", "Ursula bites", "--store", store, "--json", "-").document["id"]
    assert run("pins", "s1", "--store", store, "--json", "-").document["pins"][0]["text"] == "Ursula bites"
    assert run("compress", "s1", "--store", store, "--budget", "2k", "--json", "-").document["activated"]
    assert "Ursula bites" in run("view", "s1", "--store", store, "--budget", "2k", "--json", "-").out
    assert run("unpin", "s1", id, "--store", store).status == 0
    assert run("pins", "s1", "--store", store, "--json", "-").document == {"pins": []}


def test_what_to_type_next_is_told_in_the_words_of_a_shell(run: Runner, store):
    def typed(said: str) -> str:
        line = said.strip().splitlines()[-1]
        program, *arguments = shlex.split(line[line.index("summarizing-context") :])
        ran = run(*arguments)
        assert (program, ran.status) == ("summarizing-context", 0), ran.err
        return ran.out

    onward = typed(run("expand", "s1", "0..60", "--store", store).out)
    assert '<recalled messages="' in onward
    back = run("checkpoint", "s1", "the start", "--store", store).out
    typed(typed(back))
    typed(run("pin", "s1", "0", "--store", store).out)
    assert "/context" not in onward + back
    named = " ".join(run("--help").out.split()).partition("as /context in a host")[2]
    assert all(f"{name}," in named for name in COMMANDS if name != "help")


def test_a_file_of_settings_that_names_store_and_session_asks_for_neither(run: Runner, store, tmp_path: Path):
    config = tmp_path / "agent.toml"
    config.write_text(f'[summarizing_context]\nstore = "{store}"\nsession_id = "s1"\n')
    given = ("--config", config, "--json", "-")
    assert run("status", *given).document["statistics"]["messages"] == len(LOG)
    id = run("pin", "Ursula", "bites", *given).document["id"]
    for words in ("view", "pins", "recall walrus", "expand 0", "search walrus", "search walrus --all"):
        assert "Ursula" in run(*words.split(), *given).out, words
    assert run("unpin", id, *given).document == {"unpinned": id}
    assert run("view", "s2", *given).document["session"] == "s2"  # another one that is named goes first
    assert "hello" in run("expand", "s2", "0", *given).document["text"]
    assert run("sessions", "delete", "s2", "--yes", *given).status == 0
    assert len(run("sessions", "list", *given).document["sessions"]) == 3
    for wrong in (("view", "s3"), ("status", "nothing")):
        ran = run(*wrong, "--config", config)
        assert (ran.status, "there is no session" in ran.err) == (2, True)
    assert "SESSION: name a session" in run("view", "--store", store).err
    assert "--store: name a store" in run("view", "s1").err


def found(run: Runner, store: Path, *options: str) -> list[tuple[str, int]]:
    hits = run("search", *options, "--store", store, "--json", "-").document["hits"]
    return sorted((hit["session_id"], hit["start"]) for hit in hits)


def test_words_are_found_in_all_sessions_in_one_or_in_a_project(run: Runner, store):
    assert found(run, store, "s1", "billing") == [("s1", 61)]
    assert found(run, store, "s2", "billing", "--project") == [("s2", 1), ("s4", 1)]
    assert found(run, store, "s1", "billing", "--all") == [("s1", 61), ("s2", 1), ("s4", 1)]
    assert found(run, store, "s1", "zebra", "--all") == []
    assert "s4" in run("search", "s1", "hello", "--all", "--store", store).out


def test_a_session_goes_back_to_a_checkpoint_and_forward_again(run: Runner, store):
    made = run("checkpoint", "s1", "start", "--store", store, "--json", "-").document
    assert made["name"] == "start"
    fill_store(store, "s1", [says("assistant", "more")])
    assert found(run, store, "s1", "more") == [("s1", 62)]
    before = run("restore", "s1", "start", "--store", store, "--json", "-").document["before"]
    assert found(run, store, "s1", "more") == []
    assert "Restored" in run("restore", "s1", before, "--store", store).out
    assert found(run, store, "s1", "more") == [("s1", 62)]
    listed = run("checkpoints", "s1", "--store", store, "--json", "-").document["checkpoints"]
    assert [one["name"] for one in listed][:2] == ["start", f"before restoring {made['id']}"]
    assert "start" in run("checkpoints", "s1", "--store", store).out

    # another session begins at the checkpoint
    assert run("fork", "s1", "start", "s3", "--store", store).status == 0
    assert found(run, store, "s3", "tables") == [("s3", 61)]
    assert {("s1", 61), ("s3", 61)} <= set(found(run, store, "s1", "tables", "--all"))
    taken = run("fork", "s1", "start", "s3", "--store", store)
    assert (taken.status, "'s3' already" in taken.err) == (2, True)
    assert run("fork", "s1", "start", "no name!", "--store", store).status == 2


def test_sessions_are_listed(run: Runner, store, monkeypatch):
    ran = run("sessions", "list", "--store", store)
    assert ran.status == 0
    assert all(word in ran.out for word in ("s1", "s2", "harbour", "messages", "summaries"))
    found = run("sessions", "list", "--store", store, "--json", "-").document["sessions"]
    assert {info["session_id"]: info["messages"] for info in found} == {"long": len(DEMO), "s1": 62, "s2": 2, "s4": 2}
    titles = {info["session_id"]: info["title"] for info in found}
    said = next(message["content"] for message in DEMO if message["role"] == "user")
    assert said.startswith(titles["long"].removesuffix("…").rstrip())
    assert titles["long"].split()[0] in ran.out
    monkeypatch.setenv("SUMMARIZING_CONTEXT_STORE", str(store))
    assert "s1" in run("sessions", "list").out


def test_deleting_asks_unless_told_not_to(run: Runner, store, monkeypatch):
    monkeypatch.setattr("sys.stdin", io.StringIO("n\n"))
    refused = run("sessions", "delete", "s1", "--store", store)
    assert (refused.status, refused.out.strip()) == (2, "")
    assert "nothing was removed" in refused.err
    assert run("sessions", "delete", "s1", "--store", store, "--yes").status == 0
    assert "s1" not in run("sessions", "list", "--store", store).out
    monkeypatch.setattr("sys.stdin", io.StringIO(""))  # no answer
    for command in (("delete", "s2"), ("purge",)):
        assert "give --yes" in run("sessions", *command, "--store", store).err
    aged = ("sessions", "purge", "--store", store, "--older-than", 90, "--yes", "--json", "-")
    assert run(*aged).document["deleted"] == []
    with closing(sqlite3.connect(store)) as raw, raw:
        raw.execute("update sessions set updated_at = '2026-01-31T00:00:00+00:00' where session_id = 's4'")
    assert run(*aged).document["deleted"] == ["s4"]
    assert "s4" not in run("sessions", "list", "--store", store).out
    monkeypatch.setenv("FORCE_COLOR", "1")  # as on a terminal
    purged = run("sessions", "purge", "--store", store, "--yes")
    assert (purged.status, "purging" in purged.err, "0:00:0" in purged.err) == (0, True, True)

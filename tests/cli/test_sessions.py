"""Commands of stored sessions: look into one, search, change it, go back, delete it."""

import io
import json
import re
import shlex
import shutil
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any, NamedTuple

import anyio
import pytest
from cli.commands import Ran, Runner, fill_store, says
from rich.progress import Progress

from summarizing_context import Settings, open_context
from summarizing_context.commands import COMMANDS
from summarizing_context.evaluation.replay import demo_session

PARTS = ("header", "block", "system", "pin", "tail")
DEMO = demo_session(turns=10)
STEPS = [says("assistant", f"Step {n}. " * 60) for n in range(60)]
LOG = [says("user", "The walrus is called Ursula.\x1b[31m"), *STEPS, says("user", "Fix the billing tables")]
SHORT = [says("user", "hello \x1b[31m there"), says("assistant", "billing again, für 5 €")]


class Store(NamedTuple):
    """A store of four sessions, and the commands on it."""

    path: Path
    run: Runner

    def ran(self, words: str, *more: object) -> Ran:
        return self.run(*words.split(), *more, "--store", self.path)

    def out(self, words: str, *more: object) -> str:
        ran = self.ran(words, *more)
        assert ran.status == 0, ran.err
        return ran.out

    def json(self, words: str, *more: object) -> dict[str, Any]:
        return json.loads(self.out(words, *more, "--json", "-"))

    def found(self, words: str) -> list[tuple[str, int]]:
        return sorted((hit["session_id"], hit["start"]) for hit in self.json(f"search {words}")["hits"])


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
def store(run: Runner, filled: Path, tmp_path: Path) -> Store:
    return Store(Path(shutil.copytree(filled, tmp_path / "copy")) / "run.db", run)


def test_a_view_has_its_budget_and_its_parts(store: Store):
    for given, budget in (("", 6_000), ("--budget 4k", 4_000), ("--budget 9k", 9_000)):  # without one the last one
        document = store.json(f"view long {given}")
        rows = document["messages"]
        assert sum(row["tokens"] for row in rows) == document["tokens"] <= document["budget"] == budget
        header, block, system, pins, tail = ([row["message"] for row in rows if row["part"] == one] for one in PARTS)
        assert (header, block, system) == ([None], [None], [0])  # the block has the standing rules
        assert all(DEMO[at]["role"] == "user" for at in pins)
        assert tail == list(range(tail[0], len(DEMO)))
        assert pins or budget != 6_000
    shown, full = store.out("view s2"), store.out("view s2 --full")
    assert "\x1b" not in shown + full
    assert all(words in shown for words in ("2 messages", "hello ·[31m there"))
    assert (json.loads(full), "für 5 €" in full) == (SHORT, True)
    assert json.loads(store.out("view long --full")) == store.json("view long --full")["messages"]


def test_status_tells_how_full_the_view_is(store: Store):
    shown, document = store.out("status long"), store.json("status long")
    assert all(word in shown for word in ("of 6,000 tokens", "segments", "made by", "extractive"))
    assert max(len(line) for line in shown.splitlines() if str(store.path) not in line) <= 100
    assert document["statistics"]["messages"] == len(DEMO)
    assert 0 < document["budget"]["used_tokens"] <= document["budget"]["max_tokens"] == 6_000
    first, *_ = nodes = document["nodes"]
    assert all(node["start"] < node["stop"] and node["tokens"] > 0 and node["text"] for node in nodes)
    assert [node["start"] for node in nodes] == [first["start"], *(node["stop"] for node in nodes[:-1])]


def test_a_look_counts_the_system_prompt_and_the_tools_of_the_last_request(run: Runner, tmp_path: Path):
    path, given = tmp_path / "run.db", {"system": "Be careful. " * 300, "tools": [{"name": "read", "input_schema": {}}]}

    async def live() -> tuple[int, int]:
        async with open_context(Settings(store=path, session_id="s1", max_tokens=4_000)) as context:
            for message in LOG:
                await context.add_message(message)
            await context.wait_idle()
            await context.get_messages_for_request(**given)
            assert context.last_view is not None
            return context.budget().used_tokens, context.last_view.fixed_tokens

    used, fixed = anyio.run(live)
    store = Store(path, run)
    assert store.json("status s1")["budget"]["used_tokens"] == used
    document = store.json("view s1")
    assert (document["tokens"], document["fixed_tokens"], fixed > 600) == (used, fixed, True)
    assert f"{fixed:,} of them of the system prompt and tools" in store.out("view s1")


def test_a_stored_session_is_asked_and_summarized(store: Store):
    assert "Ursula" in store.out("recall s1 walrus name --budget 4k")
    assert "No memory" in store.out("memory s1 walrus")
    assert store.json("ledger s1 zebra") == {"facts": []}
    shown = store.out("expand s1 0 line")
    assert ("[message 0: user]" in shown, "\x1b" in shown) == (True, False)
    figures = store.json("status s1 --budget 8k")["statistics"]
    assert figures.keys() & {"model_calls", "activations", "cache"} == set()  # those of this look alone
    done, made = store.json("summarize s1 walrus --budget 8k"), store.json("activations s1")["activations"]
    assert (done["tokens_before"], done["tokens_after"]) == (made[0]["tokens_before"], made[-1]["tokens_after"])
    assert (done["activated"], done["freed"]) == (True, done["tokens_before"] - done["tokens_after"])
    id = store.json("pin s1", "Ursula bites")["id"]
    assert store.json("pins s1")["pins"][0]["text"] == "Ursula bites"
    assert store.json("compress s1 --budget 2k")["activated"]
    assert "Ursula bites" in store.out("view s1 --budget 2k --json -")
    assert store.json("unpin s1", id) == {"unpinned": id}
    assert store.json("pins s1") == {"pins": []}


def test_what_to_type_next_is_told_in_the_words_of_a_shell(store: Store):
    def typed(said: str) -> str:
        ran = store.run(*shlex.split(said.strip().rpartition("summarizing-context ")[2]))
        assert ran.status == 0, ran.err
        return ran.out

    onward, back = typed(store.out("expand s1 0..60")), store.out("checkpoint s1", "the start")
    assert '<recalled messages="' in onward
    typed(typed(back))
    typed(store.out("pin s1 0"))
    assert "/context" not in onward + back
    named = " ".join(store.run("--help").out.split()).partition("as /context in a host")[2]
    assert all(f"{name}," in named for name in COMMANDS if name != "help")


def test_a_file_of_settings_that_names_store_and_session_asks_for_neither(store: Store):
    config = store.path.with_name("agent.toml")
    config.write_text(f'[summarizing_context]\nstore = "{store.path}"\nsession_id = "s1"\n')
    given = ("--config", config, "--json", "-")
    assert store.run("status", *given).document["statistics"]["messages"] == len(LOG)
    id = store.run("pin", "Ursula", "bites", *given).document["id"]
    for words in ("view", "pins", "recall walrus", "expand 0", "search walrus", "search walrus --all"):
        assert "Ursula" in store.run(*words.split(), *given).out, words
    assert store.run("unpin", id, *given).document == {"unpinned": id}
    assert store.run("view", "s2", *given).document["session"] == "s2"  # another one that is named goes first
    assert store.run("sessions", "delete", "s2", "--yes", *given).status == 0
    assert len(store.run("sessions", "list", *given).document["sessions"]) == 3
    missing = [store.run(*words, "--config", config) for words in (("view", "s3"), ("status", "nothing"))]
    assert [(ran.status, "there is no session" in ran.err) for ran in missing] == [(2, True)] * 2
    assert "SESSION: name a session" in store.ran("view").err
    assert "--store: name a store" in store.run("view", "s1").err


def test_words_are_found_in_all_sessions_in_one_or_in_a_project(store: Store):
    assert store.found("s1 billing") == [("s1", 61)]
    assert store.found("s2 billing --project") == [("s2", 1), ("s4", 1)]
    assert store.found("s1 billing --all") == [("s1", 61), ("s2", 1), ("s4", 1)]
    assert store.found("s1 zebra --all") == []
    assert "s4" in store.out("search s1 hello --all")


def test_a_session_goes_back_to_a_checkpoint_and_forward_again(store: Store):
    made = store.json("checkpoint s1 start")
    assert made["name"] == "start"
    fill_store(store.path, "s1", [says("assistant", "more")])
    assert store.found("s1 more") == [("s1", 62)]
    before = store.json("restore s1 start")["before"]
    assert store.found("s1 more") == []
    assert "Restored" in store.out("restore s1", before)
    assert store.found("s1 more") == [("s1", 62)]
    listed = [one["name"] for one in store.json("checkpoints s1")["checkpoints"]]
    assert listed[:2] == ["start", f"before restoring {made['id']}"]
    assert "start" in store.out("checkpoints s1")
    store.out("fork s1 start s3")  # another session begins at the checkpoint
    assert store.found("s3 tables") == [("s3", 61)]
    assert {("s1", 61), ("s3", 61)} <= {*store.found("s1 tables --all")}
    taken = store.ran("fork s1 start s3")
    assert (taken.status, "'s3' already" in taken.err) == (2, True)
    assert store.ran("fork s1 start", "no name!").status == 2


def test_sessions_are_listed_and_deleting_one_asks_unless_told_not_to(store: Store, monkeypatch):
    shown, listed = store.out("sessions list"), store.json("sessions list")["sessions"]
    assert all(word in shown for word in ("s1", "s2", "harbour", "messages", "summaries"))
    assert {info["session_id"]: info["messages"] for info in listed} == {"long": len(DEMO), "s1": 62, "s2": 2, "s4": 2}
    titles = {info["session_id"]: info["title"] for info in listed}
    said = next(message["content"] for message in DEMO if message["role"] == "user")
    assert said.startswith(titles["long"].removesuffix("…").rstrip())
    assert titles["long"].split()[0] in shown
    monkeypatch.setenv("SUMMARIZING_CONTEXT_STORE", str(store.path))
    assert "s1" in store.run("sessions", "list").out
    monkeypatch.setattr("sys.stdin", io.StringIO("n\n"))
    refused = store.ran("sessions delete s1")
    assert (refused.status, refused.out.strip(), "]:\nerror: nothing was removed" in refused.err) == (2, "", True)
    store.out("sessions delete s1 --yes")
    assert "s1" not in store.out("sessions list")
    monkeypatch.setattr("sys.stdin", io.StringIO(""))  # no answer
    for command in ("sessions delete s2", "sessions purge"):
        assert re.search(r"\]:\nerror: .*give --yes", store.ran(command).err)
    aged = "sessions purge --older-than 90 --yes"
    assert store.json(aged)["deleted"] == []
    with closing(sqlite3.connect(store.path)) as raw, raw:
        raw.execute("update sessions set updated_at = '2026-01-31T00:00:00+00:00'")

    def asked(what: str, *_: object) -> None:
        assert "Remove 3 old sessions" in what
        fill_store(store.path, "s2", [says("user", "I am back.")])  # it goes on before the answer

    with monkeypatch.context() as patch:
        patch.setattr("summarizing_context.cli.output.confirm", asked)
        purged = store.json(aged)
    assert (sorted(purged["deleted"]), purged["freed_bytes"] > 0) == (["long", "s4"], True)
    assert [one["session_id"] for one in store.json("sessions list")["sessions"]] == ["s2"]
    monkeypatch.setenv("FORCE_COLOR", "1")  # as on a terminal
    purged = store.ran("sessions purge --yes")
    assert (purged.status, "purging" in purged.err, "0:00:0" in purged.err) == (0, True, True)


def test_the_bar_of_a_deletion_moves_with_what_is_removed_and_tells_the_pages_that_are_left(store: Store, monkeypatch):
    shown, update = list[tuple[str, float, float]](), Progress.update

    def watched(self: Progress, task: Any, **given: Any) -> None:
        update(self, task, **given)
        shown.append((self.tasks[task].fields["text"], self.tasks[task].total, given["completed"]))

    monkeypatch.setattr(Progress, "update", watched)
    rows = next(one for one in json.loads(store.out("sessions list --json -"))["sessions"] if one["session_id"] == "s1")
    store.out("sessions delete s1 --yes")
    assert max(done for text, _, done in shown if not text) == rows["messages"] + rows["summaries"]
    assert shown[-1][0] == "the search index is merged"  # a deletion rewrites no large file
    store.out("sessions purge --yes")
    totals = {text: total for text, total, done in shown if done == 0 and text}
    assert totals.keys() == {"the search index is merged", "the file is rewritten"}
    assert all(totals.values())
    with closing(sqlite3.connect(store.path)) as raw:
        pages = raw.execute("pragma page_count").fetchone()[0]  # each is written into a copy, and into the log
        assert 2 * pages <= totals["the file is rewritten"] <= 2 * pages + 16

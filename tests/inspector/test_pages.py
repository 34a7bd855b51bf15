"""What the inspector answers over HTTP, and whom it refuses."""

import json
import re
import shutil
import signal
import urllib.request
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import anyio
import httpx
import pytest
from starlette.applications import Starlette
from starlette.routing import Mount

from summarizing_context import Settings, open_context
from summarizing_context.cli import main
from summarizing_context.contrib import inspector
from summarizing_context.contrib.inspector import inspector_app
from tests.inspector.sessions import COOKIES, HOSTILE, OPTIONS, RULE, app_of, fill_store, started, writing
from tests.laws.builders import assistant, session, user

HERE = "http://127.0.0.1:8378"


class Client(httpx.AsyncClient):
    """A page of the inspector, or a caller from elsewhere."""

    async def ask(self, about: str, **params: Any) -> httpx.Response:
        return await self.get(f"/api/{about}", params={"id": "s1", **params})

    async def told(self, about: str, **params: Any) -> Any:
        return (await self.ask(about, **params)).json()

    async def undo(self, session: str = "s1", confirm: str = "s1", **given: Any) -> httpx.Response:
        return await self.post("/api/undo", **(given or {"json": {"session": session, "confirm": confirm}}))

    async def pin(self, message: object) -> httpx.Response:
        return await self.post("/api/pin", json={"session": "s1", "message": message})


def asking(app: Any, **headers: str) -> Client:
    return Client(transport=httpx.ASGITransport(app=app), base_url=HERE, headers=headers)


@pytest.fixture(scope="module")
def filled(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return fill_store(tmp_path_factory.mktemp("filled") / "run.db", count=280)


@pytest.fixture
def store(filled: Path, tmp_path: Path) -> Path:
    """A store of the test's own."""
    for path in filled.parent.iterdir():
        shutil.copy(path, tmp_path)
    return tmp_path / filled.name


@pytest.fixture
async def client(store: Path) -> AsyncIterator[Client]:
    """A page of the inspector of that store."""
    async with asking(app_of(store), origin=HERE) as client:
        yield client


async def test_a_session_is_told_with_its_log_segments_blocks_and_view(client):
    """And with its messages, its facts, what each activation did, and each summary whole."""
    listed = (await client.get("/api/sessions")).json()
    told = await client.told("session")
    assert [(one["session_id"], one["title"]) for one in listed["sessions"]] == [("s1", told["title"])]
    assert told["title"] == f"Fix the parser. {RULE}"
    assert told["log"][-1]["stop"] == told["messages"] == listed["sessions"][0]["messages"]
    assert told["blocks"][-1]["stop"] <= told["covered"] < told["messages"]
    starts = [segment["start"] for segment in told["segments"]]
    assert starts == sorted(set(starts))
    assert {"header", "tail", "pin"} <= {row["part"] for row in told["view"]}
    assert told["view"][-1]["message"] == told["messages"] - 1
    assert sum(row["tokens"] for row in told["view"]) == told["view_tokens"] < told["history_tokens"]
    assert sum(run["tokens"] for run in told["log"]) == told["history_tokens"]
    assert told["budget"] == listed["sessions"][0]["budget"] == OPTIONS["max_tokens"]
    assert RULE in [rule["quote"] for rule in told["rules"]]
    assert told["plan"]["message"] == 1
    page = await client.told("messages", start=0, stop=100)
    assert len(page["messages"]) == page["next"] < 100
    assert RULE in page["messages"][0]["text"]
    assert (await client.told("search", query="push to main"))["hits"][0]["start"] == 0
    assert RULE in [fact["value"] for fact in (await client.told("ledger"))["facts"]]
    records = told["activations"]
    assert len(records) > 2
    for record in records:
        one = await client.told("activation", number=record["number"])
        assert [row["message"] for row in one["left"]] == list(range(record["covered_from"], record["covered_to"]))
        assert len(one["blocks"]) == record["blocks"]
        assert max(block["stop"] for block in one["blocks"]) <= record["covered_to"]
        assert all(block["text"] for block in one["blocks"])
        assert record["resent"] == record["tokens_after"] - record["prefix_kept"]
    assert (await client.ask("activation", number=99)).status_code == 404
    assert any(block["rank"] > 0 for block in told["blocks"]), "a merge, which no segment is"
    for of, blocks in (("tree", told["blocks"]), ("segments", told["segments"][:2])):
        for block in blocks:
            assert (await client.told("block", of=of, start=block["start"], stop=block["stop"]))["text"]
    gone = await client.ask("block", of="segments", start=1, stop=2)
    assert (gone.status_code, "no segment" in gone.json()["error"]) == (404, True)


async def test_the_page_is_served_from_an_installation_of_links_and_mounted_in_another_application(
    store, tmp_path, monkeypatch
):
    shipped, files = inspector._FILES, tmp_path / "static"
    files.mkdir()
    for path in shipped.iterdir():
        (files / path.name).symlink_to(path)
    monkeypatch.setattr(inspector, "_FILES", files)
    outer = Starlette(routes=[Mount("/inspect", app_of(store, checks_host=False))])
    async with asking(outer, host="agents.example:9") as client:
        for place, name in (
            ("/", "index.html"),
            *((f"/static/{name}", name) for name in ("inspector.js", "inspector.css")),
        ):
            assert (await client.get(f"/inspect{place}")).content == (shipped / name).read_bytes()
        assert (await client.get("/inspect/static/..%2f__init__.py")).status_code == 404
        assert (await client.get("/inspect", follow_redirects=False)).status_code == 307
        assert (await client.get("/inspect/api/sessions")).json()["sessions"]


async def test_a_log_that_was_imported_is_told_within_its_budget_as_by_the_command(tmp_path, capsys):
    path, log = tmp_path / "run.db", tmp_path / "long.jsonl"
    log.write_text("".join(f"{json.dumps(row)}\n" for row in session(5, 300)))
    assert await anyio.to_thread.run_sync(main, ["import", str(log), "--store", str(path)]) == 0
    capsys.readouterr()
    command = ["status", "long", "--store", str(path), "--budget", "8k", "--json", "-"]
    assert await anyio.to_thread.run_sync(main, command) == 0
    budget = json.loads(capsys.readouterr().out)["budget"]
    async with asking(inspector_app(path, settings=Settings(max_tokens=8_000))) as client:
        told = await client.told("session", id="long")
    assert told["history_tokens"] > told["budget"] == budget["max_tokens"]
    assert told["view_tokens"] == budget["used_tokens"]
    assert 0 < told["covered"] < told["messages"]
    assert told["activations"] == []


OWN: list[dict[str, str]] = [
    *({}, {"host": "localhost:9"}, {"host": "[::1]:8378"}, {"origin": HERE}, {"sec-fetch-site": "same-origin"}),
    {"sec-fetch-site": "cross-site", "sec-fetch-dest": "document"},
]
OTHERS = {
    "host": ("evil.example", "127.0.0.1.evil.example:8378", "192.168.0.7:8378", ""),
    "origin": ("http://evil.example", "http://127.0.0.1:8377", "null"),
    "sec-fetch-site": ("cross-site", "same-site"),
}


async def test_only_pages_of_its_own_under_a_name_of_this_machine_may_ask(store):
    app, refused = app_of(store), [{name: value} for name, values in OTHERS.items() for value in values]
    for headers in (*OWN, *refused):
        async with asking(app, **headers) as client:
            answer = await client.get("/api/sessions")
        assert (answer.status_code, "s1" in answer.text) == ((200, True) if headers in OWN else (403, False)), headers


SCRIPTS = ("inspector.js", "dom.js", "panels.js")
SERVED = ["/", *(f"/static/{name}" for name in ("inspector.css", *SCRIPTS))]


@pytest.mark.parametrize("path", [*SERVED, "/static/../__init__.py", "/api/session?id=none", "/none"])
async def test_every_answer_says_what_a_browser_may_do_and_asks_nothing_of_other_hosts(client, path):
    answer = await client.get(path)
    policy = answer.headers["content-security-policy"]
    for words in ("default-src 'none'", "frame-ancestors 'none'", "require-trusted-types-for 'script'"):
        assert words in policy
    assert "unsafe" not in policy
    assert answer.headers["x-content-type-options"] == "nosniff"
    assert answer.headers["cache-control"] == "no-store"
    assert (answer.status_code == 200) == (path in SERVED)
    assert not re.search("https?://|innerHTML|style=", answer.text.replace("http://www.w3.org/", ""))


async def test_an_undo_has_to_be_confirmed_by_name(client, store):
    async with writing(store) as context:
        assert (await context.summarize(3)).activated
    right = {"session": "s1", "confirm": "s1"}
    for status, given in (
        (400, {"json": {"session": "s1", "confirm": "yes"}}),
        (400, {"json": ["s1"]}),
        (404, {"json": {"session": "none", "confirm": "none"}}),
        (415, {"content": json.dumps(right)}),
        (413, {"json": {**right, "more": "x" * 5_000}}),
        (403, {"json": right, "headers": {"origin": "http://evil.example"}}),
    ):
        assert (await client.undo(**given)).status_code == status
    before = await client.told("session")
    told = await client.told("undo")
    newest = before["activations"][0]
    assert (told["undoes"], told["covered_to"]) == (newest["number"], newest["covered_from"])
    assert await client.told("session") == before, "the question alone undoes nothing"
    assert (await client.undo()).json() == {"undone": "s1"}
    after = await client.told("session")
    assert after["covered"] == newest["covered_from"] < before["covered"]
    assert [one["is_undone"] for one in after["activations"][:2]] == [False, True]
    assert (after["activations"][0]["tokens_after"], after["covered"]) == (told["tokens_after"], told["covered_to"])


async def test_a_long_message_comes_whole_and_hostile_text_as_json_alone(tmp_path):
    """And messages come by pages, where they are many or long."""
    path = tmp_path / "run.db"
    long = "".join(f"line {number}{' of it' * 20}\n" for number in range(5_000))  # two of them are more than a page
    async with writing(path) as context:
        for said in (user("Hello."), assistant(long), user(HOSTILE), assistant(long), assistant(long)):
            await context.add_message(said)
    async with asking(app_of(path)) as client:
        answer = await client.ask("messages", start=2, stop=3)
        assert answer.headers["content-type"] == "application/json"
        assert HOSTILE in json.loads(answer.content)["messages"][0]["text"]
        first, rest = [await client.told("messages", start=start, stop=5) for start in (1, 4)]
        assert [(row["text"] == long, row["left"]) for row in first["messages"]] == [(True, 0), (False, 0), (True, 0)]
        assert (first["next"], rest["next"]) == (4, None)
        assert rest["messages"][0]["text"] == long


async def test_a_message_is_pinned_from_the_page_also_where_a_program_has_the_session_open(client, store):
    """And an undo goes the same way: through the program, where one has the session open."""
    assert (await client.pin(1)).json()["pinned"]
    assert [(await client.pin(wrong)).status_code for wrong in ("1", 10_000)] == [400, 400]
    async with writing(store) as context:

        async def pin(session_id: str, message: int) -> str:
            assert session_id == "s1"
            return await context.pin(message)

        async def undo(session_id: str) -> None:
            assert session_id == "s1"
            await context.undo_activation()

        assert (await context.summarize(3)).activated
        for refused in (await client.pin(2), await client.undo()):
            assert refused.status_code == 409
            assert all(words in refused.json()["error"] for words in ("is open for writing in process", "proxy status"))
        assert [one.index for one in context.pins()] == [1]
        async with asking(app_of(store, pin=pin, undo=undo), origin=HERE) as there:
            assert [(await there.pin(2)).status_code, (await there.undo()).status_code] == [200, 200]
        assert [one.index for one in context.pins()] == [1, 2]
        assert context.activations()[-1].undoes == context.activations()[-2].number


def test_changes_are_told_as_they_come_also_where_the_store_is_gone_and_the_server_stops_with_streams_open(tmp_path):
    store = fill_store(tmp_path / "run.db", "s1", 5)
    with started(store, tmp_path) as (url, process):
        asked = urllib.request.Request(f"{url}api/events", headers={"Cookie": COOKIES[url]})
        with urllib.request.urlopen(asked, timeout=120) as told:
            first = next(line for line in told if line.startswith(b"data:"))
            fill_store(store, "s2", 3)
            assert next(line for line in told if line.startswith(b"data:")) != first
            for path in tmp_path.glob("run.db*"):
                path.unlink()
            with urllib.request.urlopen(asked, timeout=5) as again:
                assert next(iter(again)).startswith(b"data:"), "the first one comes at once"
            process.send_signal(signal.SIGINT)
            assert process.wait(10) in (0, 130)


async def test_an_undo_takes_the_end_of_a_long_name_counts_as_the_session_does_and_refuses_what_does_not_fit(tmp_path):
    path, name = tmp_path / "run.db", "chat:0123456789ab:agent-77aa88bb99"
    settings = Settings(store=path, session_id=name, max_tokens=3_000)
    async with open_context(settings, count_tokens=lambda text: 3 * len(text.split())) as context:
        for number in range(60):
            said = f"message {number} " + "lorem ipsum dolor " * 40
            await context.add_message({"role": ("user", "assistant")[number % 2], "content": said})
            if number % 2:
                await context.get_messages_for_request()
    async with asking(inspector_app(path), origin=HERE) as client:
        assert (await client.undo(name, "bb99")).status_code == 400
        refused = await client.undo(name, name[-8:])
    assert (refused.status_code, "does not fit" in refused.json()["error"]) == (409, True)

"""Plug-ins of clients ask for views: answers, logs that go on behind a compaction, and the installed files."""

import json
import re
import shutil
from collections.abc import AsyncIterator
from functools import partial
from pathlib import Path
from typing import Any

import anyio
import httpx2
import pytest

from summarizing_context import Settings, open_context
from summarizing_context.adapters.open_sessions import opened_store
from summarizing_context.cli import main
from summarizing_context.contrib.proxy import server
from summarizing_context.contrib.proxy.dialects import handover_line
from tests.laws.builders import assistant, call, result, system, user
from tests.proxy.clients import between, status
from tests.proxy.fake import Fake
from tests.proxy.test_wire import post

BUDGET = 8_000
TOKEN = "0123456789abcdef0123"
FIRST = "Read the files. Never push to main."
STEPS = [  # of an agent: the id of its call, what it says, and what it reads
    (f"call-{step}", f"Step {step}.", {"path": f"src/part_{step}.py"}, f"line {step} of the file\n" * 80)
    for step in range(40)
]


def history(steps: int) -> list[dict[str, Any]]:
    """A session of an agent, as Chat Completions have it."""
    rows = [user(FIRST)]
    for id, said, given, read in STEPS[:steps]:
        rows += [call("openai", (id, "read", given), text=said), result("openai", id, read)]
    return rows


def text(words: str) -> dict[str, Any]:
    return {"type": "text", "text": words}


async def ask(address: str, messages: list[Any], session: str = "s", path: str = "/_view", **more: Any) -> Any:
    """What a plug-in gets from the proxy for the history of its client."""
    body = {"model": "m", "messages": messages, **more}
    async with httpx2.AsyncClient(trust_env=False, timeout=60) as client:  # without credentials
        answer = await client.post(f"{address}{path}", json=body, headers={"x-session-id": session})
    assert answer.status_code in (200, 204)
    return answer.json().get("messages") if answer.status_code == 200 else None


service = partial(between, budget=BUDGET)


async def stored(store: Path, messages: list[dict[str, Any]]) -> str:
    """Write a log, and return the line that stands for it."""
    async with open_context(Settings(store=store, session_id="s1", max_tokens=BUDGET)) as context:
        await context.set_messages(messages)
        await context.get_messages_for_request()
        return handover_line("s1", await context.get_messages())


async def test_a_plug_in_gets_its_own_messages_by_place_and_summaries_for_the_rest():
    said = history(40)
    async with service() as (_, address):
        assert await ask(address, said[:5]) is None  # a history that fits stays as it is
        first, ours, *rest = items = await ask(address, said)
        grown = await ask(address, [*said, assistant("All is read.")])
        shorter = (await ask(address, [*said[:7], user("word " * 20_000)], "other"))[-1]
        told = await status(address)
    async with service(budget=None) as (_, address):  # then it is that of the model as the client knows it
        assert await ask(address, said, "one", context_window=100_000) is None
        assert await ask(address, said, "two", context_window=9_000, max_tokens=1_000) is not None
    assert [first, *rest] == [{"at": 0}, *({"at": at} for at in range(len(said) - len(rest), len(said)))]
    assert (ours.keys(), ours["role"], told["failures"]) == ({"role", "content"}, "user", 0)
    assert "<summary messages=" in ours["content"]
    assert grown == [*items, {"at": len(said)}]  # views grow at their end
    assert shorter["at"] == 7
    assert 0 < len(shorter["content"]) < BUDGET * 5  # a text that a view shows shorter
    assert max(record["view_tokens"] for record in told["records"]) <= BUDGET


async def test_a_compaction_is_one_text_and_the_log_goes_on_behind_it(tmp_path):
    said, store = history(12), tmp_path / "proxy.db"
    async with service(store=store) as (_, address):
        assert await ask(address, said, compact=True) is not None
        said += history(30)[1:]
        items = await ask(address, said, compact=True)
        assert [item.get("at") for item in items[1:]] == list(range(len(said) - len(items) + 1, len(said)))
        assert items[0]["content"].startswith("[summarizing-context: the first ")
        assert "Never push to main" in items[0]["content"]
    now = [said[item["at"]] if "at" in item else item for item in items] + [user("Which port?")]
    async with service(store=store) as (_, address):  # another process
        again = await ask(address, now, compact=True)
        told = await status(address)
    assert "Never push to main" in again[0]["content"]
    assert [session["messages"] for session in told["sessions"]] == [len(said) + 1]


async def test_a_line_about_messages_that_no_log_has_or_its_log_holds_no_longer_changes_nothing(tmp_path):
    store = tmp_path / "run.db"
    gone = await stored(store, history(40))
    await stored(store, [{**message, "content": "Another."} for message in history(40)])
    async with service(store=store) as (_, address):
        for line in (gone, "[summarizing-context: the first 7 messages of session other, as 0123456789ab]"):
            assert await ask(address, [user(f"{line}\nGo on."), assistant("Read."), *history(40)], line[-9:]) is None
        assert (await status(address))["failures"] == 0
    async with opened_store(store, read_only=True) as held:
        assert [info.session_id for info in await held.sessions()] == ["s1"]


@pytest.mark.parametrize("compact", [False, True])
async def test_messages_that_a_client_has_not_come_as_a_record_that_tells_who_said_what(compact, tmp_path):
    store = tmp_path / "run.db"
    line = await stored(store, [system("The old prompt."), *history(40)])
    async with service(store=store) as (_, address):
        [ours, newest] = await ask(address, [user(line), assistant("Read.")], compact=compact)
    assert (ours["role"], newest) == ("user", {"at": 1})
    assert "The old prompt." not in ours["content"]
    record = ours["content"].rpartition("<session_record>\n")[2]
    assert re.search(r"### assistant calls read\n.*### result of read\nline 39 of .*</session_record>$", record, re.S)


async def test_a_compaction_that_no_provider_gets_counts_as_no_request():
    """And without credentials, no provider is asked for a summary."""
    fake, tools = Fake(), [{"type": "function", "function": {"name": "read"}}]
    async with service(fake, lends=True) as (_, address):
        for compact in (False, True):
            assert await ask(address, history(40), tools=tools, compact=compact) is not None
        await ask(address, history(40), path="/v1/chat/completions", tools=tools)
        told = await status(address)
        [session] = told["sessions"]
        for _ in range(3):
            await ask(address, history(40), "other", "/v1/chat/completions")
    assert len([seen for seen in fake.seen if seen["raw"]]) == 4  # the requests of the client alone
    assert session["cache"]["requests"] == told["requests"] == session["requests"] == 1
    assert told["plugin_views"] == session["plugin_views"] == 2
    assert [record["by_plugin"] for record in told["records"]] == [True, True, False]


async def test_a_history_that_is_too_long_to_be_read_and_one_without_the_token_are_refused(monkeypatch):
    monkeypatch.setattr(server, "MAX_BYTES", 1_000)

    async def pieces() -> AsyncIterator[bytes]:
        for _ in range(20):
            yield b" " * 100

    async with service() as (_, address):
        for content in (b" " * 2_000, pieces()):
            assert (await post(address, "/_view", content)).status_code == 413
    async with service(token=TOKEN) as (_, address):
        assert (await post(address, "/_view", '{"messages": []}')).status_code == 401


# The files that are installed, in a JavaScript of its own with hosts that are made up


@pytest.fixture
def run_plugin(own_home: Path) -> Any:
    """Install a plug-in for a proxy, and return what a program that drives it writes; it has `plugin` and `given`."""
    if shutil.which("node") is None:
        pytest.skip("needs node")
    folder = own_home / ".config" / "summarizing-context"
    folder.mkdir(parents=True)
    (folder / "proxy-token").touch(0o600)
    (folder / "proxy-token").write_text(TOKEN)

    async def run(client: str, given: Any = None, driver: str = "", at: str = "") -> Any:
        if not at:
            async with service(token=TOKEN) as (_, address):
                return await run(client, given, driver, address)
        told = own_home / "told.json"
        assert main(["install", client, "--yes", "--listen", at.rpartition(":")[2], "--json", str(told)]) == 0
        shutil.copy(json.loads(told.read_text())["files"][-1], module := own_home / "plugin.mjs")
        head = f"import {{ readFileSync }} from 'node:fs'\nimport * as plugin from {json.dumps(str(module))}\n"
        head += f"const given = {json.dumps(given or CLIENTS[client][1])}\n"
        (script := own_home / "driver.mjs").write_text(head + (driver or CLIENTS[client][0]))
        with anyio.fail_after(60):
            done = await anyio.run_process(["node", str(script)], check=False)
        assert done.returncode == 0, done.stderr.decode()
        return json.loads(done.stdout)

    return run


def histories_of_clients() -> tuple[list[Any], list[Any], list[Any]]:
    """The same session as OpenCode holds it, a call and its result in one part; as Pi; as Claude Code, by blocks."""
    parts: list[Any] = [("user", [text(FIRST)])]
    messages: list[Any] = [{"role": "user", "content": [text(FIRST)]}]
    rows: list[Any] = [{"role": "user", "text": FIRST}]
    for id, said, given, read in STEPS:
        state = {"input": given, "status": "completed", "output": read}
        parts += [("assistant", [text(said), {"type": "tool", "callID": id, "tool": "read", "state": state}])]
        use = {"type": "toolCall", "id": id, "name": "read", "arguments": given}
        messages += [{"role": "assistant", "content": [text(said), use]}]
        messages += [{"role": "toolResult", "toolCallId": id, "content": [text(read)]}]
        uses = [{"tool_use_id": id, "tool": "Read", "input": given}]
        rows += [{"role": "assistant", "text": said}, {"role": "assistant", "text": "", "toolUses": uses}]
        rows += [{"role": "user", "text": "", "toolResults": [{"tool_use_id": id, "text": read, "isError": False}]}]
    info = {"sessionID": "o", "model": {"providerID": "p", "modelID": "m"}}
    opencode = [{"info": {**info, "id": f"m{at}", "role": role}, "parts": one} for at, (role, one) in enumerate(parts)]
    pi = [{"type": "message", "id": f"e{at}", "message": row} for at, row in enumerate(messages)]
    claude = [{"toolUses": [], **row, "handle": f"h{at}"} for at, row in enumerate(rows)]
    return opencode, [{"type": "model_change", "id": "e"}, *pi], claude


OPENCODE = """
const said = []
const client = {
  app: { log: async ({ body }) => said.push(body.message) },
  tui: { showToast: async () => {} },
  config: { providers: async () => ({ data: { providers: [] } }) },
}
const hooks = await plugin.SummarizingContext({ client })
await hooks["tool.definition"]({ toolID: "read" }, { description: "Reads a file." })
await hooks["experimental.chat.system.transform"]({ sessionID: "o" }, { system: ["You read files."] })
const output = { messages: given }
for (const _ of [1, 2]) await hooks["experimental.chat.messages.transform"]({}, output)
console.log(JSON.stringify({ said, messages: output.messages }))
"""


async def test_opencode_sends_a_view_in_place_of_a_long_history(run_plugin):
    told = await run_plugin("opencode")
    first, ours, *tail = told["messages"]
    assert "<summary messages=" in ours["parts"][0]["text"]
    assert (told["said"], [first, *tail]) == ([], [OPENCODE_HISTORY[0], *OPENCODE_HISTORY[-len(tail) :]])


PI = """
const on = {}, said = []
plugin.default({ on: (name, act) => (on[name] = act) })
const sessionManager = { getSessionId: () => "p", getBranch: () => given }
const ctx = { sessionManager, model: { id: "m" }, ui: { notify: (words) => said.push(words) } }
const event = { branchEntries: given, preparation: { tokensBefore: 9 }, signal: new AbortController().signal }
const gone = { notify: () => { throw new Error("the session has ended") } }
await on.turn_end({}, { ...ctx, ui: gone })
await on.turn_end({}, ctx)
await on.session_before_compact(event, ctx)
const done = await on.session_before_compact(event, ctx)
console.log(JSON.stringify({ said, compaction: done?.compaction }))
"""


async def test_pi_compacts_to_summaries_and_keeps_its_newest_entries(run_plugin):
    told = await run_plugin("pi")
    assert (told["said"], told["compaction"]["tokensBefore"]) == ([], 9)
    assert "<summary messages=" in told["compaction"]["summary"]
    kept = next(entry for entry in PI_ENTRIES[-12:] if entry["id"] == told["compaction"]["firstKeptEntryId"])
    assert kept["message"]["role"] == "assistant"  # no result without its call
    late = {"role": "toolResult", "toolCallId": "gone", "content": [text("It took an hour.")]}
    entries = [*PI_ENTRIES, {"type": "message", "id": "late", "message": late}]
    told = await run_plugin("pi", entries)  # a compaction that leaves no entry as it was
    assert "It took an hour." in told["compaction"]["summary"]
    assert told["compaction"]["firstKeptEntryId"] not in [entry["id"] for entry in entries]


async def test_turns_of_pi_that_are_quicker_than_the_service_do_not_queue_up_before_a_compaction(run_plugin):
    counted = """
    let [open, most] = [0, 0]
    globalThis.fetch = async () => {
      most = Math.max(most, ++open)
      await new Promise((done) => setTimeout(done, 20))
      open--
      return { ok: true, status: 204 }
    }
    """
    driver = PI.replace("await on.turn_end({}, ctx)", "for (const _ of given) await on.turn_end({}, ctx)")
    driver = counted + driver.replace("{ said,", "{ said, most,")
    told = await run_plugin("pi", driver=driver, at="127.0.0.1:9")
    assert told["most"] == 2  # one of the turns', and the compaction's


CLAUDE = """
const on = {}, said = []
plugin.register((name, act) => (on[name] = act))
const fetched = async (url, init) => {
  const answer = await fetch(url, init)
  return { status: answer.status, text: await answer.text() }
}
const $ = {
  session: { id: async () => "c", model: async () => "claude-x", messages: async () => given },
  fs: { read: async (path) => readFileSync(path, "utf8") },
  http: { fetch: fetched },
  ui: { toast: (words) => said.push(words) },
}
const next = async (e) => ({ messages: e.messages })
await on["turn.complete"]($, {}, next)
const early = await on["session.compact"]($, { trigger: "precompute", messages: given }, next)
const done = await on["session.compact"]($, { trigger: "auto", messages: given }, next)
console.log(JSON.stringify({ said, skip: early.skip, messages: done.messages }))
"""


OPENCODE_HISTORY, PI_ENTRIES, CLAUDE_ROWS = histories_of_clients()
CLIENTS = {"opencode": (OPENCODE, OPENCODE_HISTORY), "pi": (PI, PI_ENTRIES), "claude-code": (CLAUDE, CLAUDE_ROWS)}


@pytest.mark.parametrize("client", CLIENTS)
async def test_without_the_service_a_client_goes_on_unchanged_and_says_so_once(client, run_plugin):
    told = await run_plugin(client, at="127.0.0.1:9")
    [words] = told["said"]
    assert "summarizing-context proxy --store STORE --listen 127.0.0.1:9" in words
    assert told.get("messages", CLIENTS[client][1]) == CLIENTS[client][1]
    assert told.get("compaction") is None


async def test_claude_code_compacts_to_summaries_and_its_newest_rows(run_plugin):
    told = await run_plugin("claude-code")
    ours, *tail = told["messages"]
    assert (told["said"], bool(told["skip"]), len(tail) < 20) == ([], True, True)
    assert "<summary messages=" in ours["text"]
    assert tail == [{name: row[name] for name in row if name != "handle"} for row in CLAUDE_ROWS[-len(tail) :]]


async def test_claude_code_keeps_of_a_row_what_the_view_shows(run_plugin):
    """A row that holds a result and a text, of which the view shows one."""
    result = {"tool_use_id": "c", "text": "the file", "isError": False}
    calls = {"role": "assistant", "text": "", "toolUses": [{"tool_use_id": "c", "tool": "Read", "input": {}}]}
    answers = {"role": "user", "text": "Stop.", "toolUses": [], "toolResults": [result]}
    rows = [{**calls, "handle": "a"}, {**answers, "handle": "b"}]
    for places, shown in (([2], [{**answers, "toolResults": []}]), ([0, 1], [calls, {**answers, "text": ""}])):
        answer = json.dumps({"messages": [{"role": "user", "content": "Summaries."}, *({"at": at} for at in places)]})
        answered = f"const fetched = async () => ({{ status: 200, text: {json.dumps(answer)} }})\n"
        driver = answered + CLAUDE.replace("const fetched", "const unused")
        told = await run_plugin("claude-code", rows, driver, at="127.0.0.1:9")
        assert told["messages"] == [{"role": "user", "text": "Summaries.", "toolUses": []}, *shown]


async def test_a_session_goes_on_in_another_client_with_its_whole_log(tmp_path, own_home):
    store = tmp_path / "run.db"
    await stored(store, history(40))
    told = tmp_path / "told.json"
    command = ["continue", "s1", "--store", str(store), "--in", "opencode", "--dry-run", "--json", str(told)]
    assert await anyio.to_thread.run_sync(main, command) == 0
    prompt = json.loads(told.read_text())["prompt"]
    assert re.search("<summary messages=.*line 39 of the file", prompt, re.S)
    async with service(store=store) as (_, address):
        items = await ask(address, [user(prompt), assistant("All is read.")])
    async with open_context(Settings(store=store, session_id="s1"), read_only=True) as context:
        log = await context.get_messages()
    assert (len(log), log[-1]["content"], items[-1]) == (82, "All is read.", {"at": 1})

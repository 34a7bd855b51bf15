"""One contract for every host: the same session of a hundred steps through its real runtime and its fake model;
generated sessions of every shape; and what is said where its package is missing."""

import importlib
import re
import sys
import tomllib
from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import anyio
import pytest

from summarizing_context import MissingExtraError, Settings
from summarizing_context.testing import ScriptedSummarizer
from tests.clients import players
from tests.docs.checkout import ROOT
from tests.hosts.contract.judge import Call, Judge, Row
from tests.hosts.contract.script import STEPS, Conversation, Played, play
from tests.laws.builders import count

HOSTS = {
    "amplifier": ("amplifier_host", "AmplifierHost"),
    "langchain": ("langchain_host", "LangChainHost"),
    "openai-agents": ("openai_agents_host", "OpenAIHost"),
    "pydantic-ai": ("pydantic_ai_host", "PydanticHost"),
}


def host_of(name: str, conversation: Any, folder: Path, **options: Any) -> Any:
    module, kind = HOSTS[name]
    make = getattr(importlib.import_module(f"tests.hosts.contract.{module}"), kind)
    return make(conversation, folder / "store.db", count_tokens=count, **options)


def play_with(name: str, folder: Path, **options: Any) -> Played:
    telemetry = None
    if find_spec("opentelemetry.sdk"):
        telemetry = importlib.import_module("tests.hosts.test_opentelemetry").Telemetry("contract")
        options["events"] = telemetry.events

    async def run() -> Played:
        with anyio.fail_after(300):  # what is waited for may never come
            async with host_of(name, Conversation(), folder, **options) as host:
                return replace(await play(host), telemetry=telemetry)

    return anyio.run(run)


@pytest.fixture(scope="module", params=HOSTS)
def played(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Played:
    return play_with(request.param, tmp_path_factory.mktemp("contract"))


def test_every_request_is_lawful(played):
    judge = played.conversation.judge
    assert judge.problems == []
    assert judge.seen["requests"] == STEPS
    assert judge.seen["covering"] > 80
    assert min(judge.seen[each] for each in ("parallel", "thinking", "shortened")) > 50
    assert 8 < judge.seen["breaks"] <= played.activations, "else a request begins with the one before"
    said = [row for row in played.history if row.mark]  # a host may store results of its own for lost ones
    assert said == played.conversation.log, "the host's history stays whole"
    assert len(said) > 2 * STEPS


def test_a_restart_goes_on_with_the_same_bytes(played):
    assert played.restarts == [True, True]


@pytest.mark.parametrize("host", HOSTS)
def test_nothing_waits_for_a_summarizer_that_never_answers(host, tmp_path):
    summarizer = ScriptedSummarizer(delay=float("inf"))
    played = play_with(host, tmp_path, summarizer=summarizer)
    judge = played.conversation.judge
    assert judge.problems == []
    assert judge.seen["requests"] == STEPS
    assert judge.seen["breaks"] > 8
    assert len(summarizer.jobs) > 10
    assert sum(each.stand_ins_total for each in played.figures) > 40
    assert played.restarts == [True, True]


def test_the_session_is_read_over_mcp(played):
    mcp = pytest.importorskip("mcp")
    make_server = importlib.import_module("summarizing_context.adapters.mcp").make_server

    async def read() -> str:
        pages, cursor = "", {}
        async with mcp.Client(make_server(Settings(store=played.store), played.session)) as client:
            while True:
                asked = {"range": f"0-{played.figures[-1].messages - 1}", "max_tokens": 4_000, **cursor}
                page = (await client.call_tool("context_expand", asked)).content[0].text
                pages += page
                if (onward := re.search(r"cursor='([^']+)'", page)) is None:
                    return pages
                cursor = {"cursor": onward[1]}

    found = anyio.run(read)
    sent = played.conversation.log[:-1]  # a host hands over the last answer with its next request
    assert [row.mark for row in sent if f"[{row.mark}]" not in found] == []


def test_opentelemetry_records_each_activation_and_no_text(played):
    if played.telemetry is None:
        pytest.skip("OpenTelemetry's SDK is not installed")
    recorded = played.telemetry.recorded()
    assert len(recorded.named("summarizing_context.activate")) == played.activations
    assert len(recorded.named("summarizing_context.summarize")) > 10
    written = "".join(span.to_json() for span in recorded.spans)
    assert [row for row in played.conversation.log if " ".join(row.text.split()[1:4]) in written] == []


PROMPTS = [f"Look at file {at}. " + "It is part of the cache of this module. " * 8 for at in range(8)]


@pytest.mark.parametrize("name", [name for name in HOSTS if name != "amplifier"])
async def test_a_call_of_the_compact_tool_ends_a_task(name, tmp_path):
    """The view behind it shows summaries of what came before."""
    seen, call = list[str](), Call("c1", "context_compact", '{"keep": "Port 6543."}')
    said = [*(Row("assistant", f"[a{at}] Done.") for at in range(8)), Row("assistant", "[r8] Now.", (call,))]
    replies = iter([*said, Row("assistant", "[a8] Next.")])
    script = SimpleNamespace(reply=lambda rows: seen.append(str(rows)) or next(replies))
    host = host_of(name, script, tmp_path)
    adapter = importlib.import_module(f"summarizing_context.adapters.{name.replace('-', '_')}")
    host.tools = [adapter.compact_tool()]
    async with host:
        for prompt in [*PROMPTS, "Now the next task."]:
            await host.ask(prompt)
        assert (await host.figures()).activations_by_reason == {"explicit": 1}
    before, after = seen[-2:]
    assert (PROMPTS[4] in before, PROMPTS[4] in after, "<history>" in after) == (True, False, True)
    assert "Port 6543." in after


@pytest.mark.parametrize(
    ("door", "package", "unknown"),
    [
        *(("langchain", "langchain.agents", unknown) for unknown in (False, True)),
        *(("openai-agents", "agents", unknown) for unknown in (False, True)),
        ("pydantic-ai", "pydantic_ai", False),
    ],
)
async def test_every_shape_has_a_lawful_view(door, package, unknown):
    """Before the strict rules of providers. A block of an unknown type travels whole, or is covered whole."""
    pytest.importorskip(package)
    steps, budget = (24, players.BUDGET) if unknown else (50, 2 * players.BUDGET)
    verdict = await players.run(door, players.SESSIONS, steps=steps, budget=budget, unknown=unknown)
    assert verdict.problems == []
    assert verdict.shortened > 6


EXTRAS = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["optional-dependencies"]
OLDEST = dict(re.findall(r"^([\w-]+)==([\d.]+)$", (ROOT / "tests/hosts/oldest.txt").read_text(encoding="utf-8"), re.M))


@pytest.mark.parametrize("adapter", ["langchain", "openai_agents", "pydantic_ai"])
def test_the_extra_is_named(adapter, monkeypatch):
    module, package = f"summarizing_context.adapters.{adapter}", adapter.removeprefix("openai_")
    for name in [name for name in sys.modules if f"{name}.".startswith((f"{module}.", f"{package}."))]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, package, None)
    with pytest.raises(MissingExtraError, match=rf"pip install 'summarizing-context\[{adapter.replace('_', '-')}\]'"):
        importlib.import_module(module)


PACKAGES = {"amplifier": "amplifier-core", "langchain": "langchain", "mcp": "mcp", "openai_agents": "openai-agents"}
PACKAGES |= {"opentelemetry": "opentelemetry-sdk", "pydantic_ai": "pydantic-ai-slim"}


@pytest.mark.parametrize(("page", "package"), PACKAGES.items())
def test_the_oldest_version_is_the_same_everywhere(page, package):
    extra = "hosts" if page == "opentelemetry" else page.replace("_", "-")
    (floor,) = [line.removeprefix(f"{package}>=") for line in EXTRAS[extra] if line.startswith(f"{package}>=")]
    assert OLDEST[package].startswith(f"{floor}.")
    told = (ROOT / f"docs/integrate/{page}.md").read_text(encoding="utf-8")
    assert f"Tested with `{package}` {OLDEST[package]} and " in told


# The judge finds what is wrong and nothing else; `laws/test_judge.py` has more of the laws' checks -----------------

WORDS = "many words of a file that was read long ago; " * 20
C0, C1, C2 = (Call(f"c{number}", "read", "{}") for number in range(3))
LOG = [
    Row("user", "[p0] Fix it."),
    Row("assistant", "[r0] I look.", (C0, C1), thinking="Which one?"),
    Row("tool", f"[c0] {WORDS}end.", answers="c0"),
    Row("user", "[p1] Go on."),
    Row("assistant", "[r1] I look.", (C2,), thinking="How?"),
    Row("tool", "[c2] Here.", answers="c2"),
]
HEADER, LOST = Row("user", "Summaries: a file was read."), Row("tool", "No result.", answers="c1")
WHOLE = [*LOG[:3], LOST, *LOG[3:]]
COVERING = [LOG[0], HEADER, *LOG[3:]]


def problems(sent: list[Row], budget: int = 2_000, removed: tuple[str, ...] = ()) -> list[str]:
    judge = Judge(budget)
    judge.check(sent, LOG, removed)
    return judge.problems


def changed(mark: str, **fields: object) -> list[Row]:
    return [replace(row, **fields) if row.mark == mark else row for row in WHOLE]


SHORTENED = changed("c0", text=f"[c0] {WORDS[:100]}\n[…200…]\n of a file end.")


RIGHT = [WHOLE, COVERING, SHORTENED, changed("r0", thinking=""), [LOG[0], replace(LOG[1], calls=(C0,)), *LOG[2:]]]
WRONG = [
    *([], LOG, WHOLE[1:], WHOLE[:-2], [LOG[0], HEADER, *LOG[4:]], [HEADER, *COVERING], [*COVERING, HEADER]),
    *(changed("c0", text=f"[c0] {WORDS}other."), changed("c2", text="[c2] Her"), changed("p1", role="assistant")),
    *(changed("r0", thinking="Which"), changed("r1", thinking="")),
    changed("r1", calls=(Call("c2", "read", '{"path": "b"}'),)),
]


@pytest.mark.parametrize(("sent", "wrong"), [*((one, False) for one in RIGHT), *((one, True) for one in WRONG)])
def test_what_is_wrong_is_told_and_nothing_else(sent, wrong):
    assert bool(problems(sent)) == wrong


def test_what_is_over_the_budget_or_was_removed_is_a_problem():
    assert problems(WHOLE, budget=284) == []
    assert "284 tokens do not fit 283" in str(problems(WHOLE, budget=283))
    assert "p0 was removed" in str(problems(WHOLE, removed=("p0", "p9")))

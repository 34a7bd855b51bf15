"""Settings: what is accepted, in groups too, what is refused and how that reads."""

import contextlib
import dataclasses
import json
import math
import re
from functools import partial
from pathlib import Path
from typing import Any

import anyio
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from summarizing_context import Settings, SettingsError, open_store
from summarizing_context.cli import main
from summarizing_context.settings import shown_store
from tests.behaviour.contexts import begun
from tests.docs import documents
from tests.laws.builders import session

NAMES = [setting.name for setting in dataclasses.fields(Settings)]
PAGE = documents.read("docs/configuration.md")
STRATEGIES = ("hierarchical", "summarize", "importance", "truncate")


MANY = [
    *(("max_tokens", True), ("max_tokens", 16_000.0), ("max_tokens", None), ("high_water", math.nan), ("store", 5)),
    *(("call_timeout", math.inf), ("call_timeout", 0), ("importance_threshold", 1.5), ("max_wait", 10**400)),
    *(("session_id", "a" * 201), ("session_id", "a\n")),
]


def problems(**values: Any) -> tuple[str, ...]:
    with pytest.raises(SettingsError) as caught:
        Settings(**values)
    return caught.value.problems


def test_the_defaults_are_the_documented_ones():
    documented = dict(re.findall(r"^\| `(\w+)` \| `?([^|`]*?)`? \|", PAGE, re.MULTILINE))
    defaults = dataclasses.asdict(Settings())
    assert documented.keys() - {"max_tokens"} <= defaults.keys()
    for name, default in defaults.items():
        said = "none" if default in (None, ()) else str(default).lower()
        assert documented[name].replace(",", "") in (said.replace(",", ""), said.removesuffix(".0"), f"{default}"), name


@pytest.mark.parametrize(
    ("values", "said"),
    [
        ({"max_tokens": 0}, "max_tokens = 0 is refused; allowed: a whole number from 1 to 1,000,000,000"),
        ({"high_water": 1}, "allowed: a number above 0 and below 1"),
        ({"max_calls_per_hour": -1}, "or none"),
        ({"store": ""}, 'a path to a file, ":memory:", or postgresql:'),
        ({"model": "gpt\n"}, "1-200 characters on one line"),
        ({"session_id": "a b"}, "1-200 characters of A-Za-z0-9._:-"),
        ({"summarizer": "gpt"}, "one of extractive, openai, anthropic, host"),
        ({"strategy": "heirarchical"}, f"(did you mean hierarchical?); allowed: one of {', '.join(STRATEGIES)}"),
        ({"strategy": "sliding-window"}, "did you mean sliding_window?"),
        ({"token_counter": "TikToken"}, "did you mean tiktoken?"),
        ({"prices": 5}, "a path to a TOML file, or none"),
        ({"header_role": "assistant"}, "one of user, system, developer"),
        ({"merge_user_rows": 1}, "true or false"),
        ({"base_url": "ftp://host"}, "http(s)://host/path"),
        ({"low_water": 0.92}, "low_water = 0.92 must be below high_water = 0.92 (the default)"),
        ({"segment_target": 9_000, "summary_max_tokens": 500}, "must be below segment_max = 8000 (the default)"),
        ({"summary_max_tokens": 1_001}, "at most 1,000, a quarter of segment_target = 4000 (the default)"),
        ({"keep_recent": 30, "max_messages": 20}, "keep_recent = 30 must be at most max_messages = 20"),
        ({"summarize_threshold": 30, "max_messages": 20}, "summarize_threshold = 30 must be at most max_messages = 20"),
        ({"nonsense": 5}, "unknown setting nonsense = 5; the configuration page lists all settings"),
        ({"hihg_water": 0.5}, "unknown setting hihg_water = 0.5; did you mean high_water?"),
        ({"quux": 5}, "the configuration page lists all settings"),
        *(({name: value}, f"{name} = {value!r}"[:26]) for name, value in MANY),
    ],
)
def test_a_wrong_value_is_refused_with_key_value_and_what_is_allowed(values: dict[str, Any], said: str):
    (problem,) = problems(**values)
    assert said in problem


def test_the_repr_does_not_show_the_key_and_a_secret_is_in_no_message():
    assert "secret" not in repr(Settings(api_key="sk-secret", embedding_api_key="sk-secret"))
    addresses = ["https://me:very secret@host/v1", "https://host/v1?key=very secret", {"url": "https://me:secret@host"}]
    keys = [("api_key", "sk-very secret"), ("api_key", ["sk-very secret"]), ("apikey", "sk-very secret")]
    for name, value in [*keys, *(("base_url", address) for address in addresses)]:
        assert "secret" not in str(problems(**{name: value}))


def test_other_names_of_a_strategy_become_its_own():
    others = ("hierarchical", "summarization", "importance_based", "sliding_window")
    for alias, strategy in zip(others, STRATEGIES, strict=True):
        assert Settings(strategy=alias).strategy == strategy
        assert Settings.from_mapping({"compaction_strategy": alias}).strategy == strategy
    with pytest.raises(SettingsError, match="given twice"):
        Settings.from_mapping({"strategy": "truncate", "compaction_strategy": "truncate"})


def test_max_tokens_knows_whether_it_was_set_and_replace_checks_again():
    given = Settings(max_tokens=100_000), Settings.from_env(environ={"SUMMARIZING_CONTEXT_MAX_TOKENS": "100000"})
    assert [one.max_tokens_is_set for one in (Settings(), *given)] == [False, True, True]
    with pytest.raises(SettingsError, match=r"low_water = 0\.95 must be below"):
        dataclasses.replace(Settings(), low_water=0.95)


anything = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text() | st.binary() | st.just(object()),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=4,
)


@settings(max_examples=40)
@given(st.dictionaries(st.sampled_from(NAMES) | st.text() | st.integers(), anything, max_size=5) | anything)
def test_any_mapping_at_all_is_accepted_or_refused_with_a_settings_error(mapping: Any):
    with contextlib.suppress(SettingsError):
        assert isinstance(Settings.from_mapping(mapping), Settings)


# Settings in groups: `context_management`, `memory`, `semantic_memory`; and from JSON files.

DOCUMENTED = next(one.text for one in documents.blocks("json") if one.page == "docs/configuration.md")
MANAGED = json.loads(DOCUMENTED)["context_management"]
CHOSEN: dict[str, Any] = {"strategy": "importance", "embedding": "openai", "vector_store": "chroma"}
CHOSEN |= {"embedding_model": "text-embedding-ada-002", "memory_include": "auto", "memory_extract": True}
NUMBERS: dict[str, Any] = {"importance_threshold": 0.6, "similarity_threshold": 0.7, "checkpoint_interval_messages": 10}
KEPT = Settings(**CHOSEN, **NUMBERS, max_messages=50, summarize_threshold=40)


def test_all_problems_are_told_at_once():
    """Those of a group with the place and the nearest name."""
    of_all = problems(max_token=5, low_water="high", attempts=0, segment_min=8_000)
    named = ["unknown setting max_token", "low_water", "attempts", "segment_min"]
    assert [problem.split(" = ")[0] for problem in of_all] == named
    assert len(problems(low_water=2.0)) == 1, "it is not blamed a second time for contradicting others"
    meaning = {"similarity_treshold": 0.7, "vector_store": "croma", "strategy": "truncate", "enabled": "yes"}
    wrong = {"max_mesages": 50, "summarize_threshold": 0, "strategy": "hierarchic", "semantic_memory": meaning}
    told = "\n".join(problems(context_management=wrong, context_managment={}, semantic_memory=5))
    for said in (
        "context_management.max_mesages = 50; did you mean context_management.max_messages?",
        "context_management.summarize_threshold = 0 is refused",
        "did you mean hierarchical?",
        "semantic_memory.similarity_treshold = 0.7; did you mean context_management.semantic_memory.similarity_thresh",
        "context_management.semantic_memory.vector_store = 'croma' is refused (did you mean chroma?)",
        "semantic_memory.enabled = 'yes' is refused; allowed: true or false",
        "unknown setting context_management.semantic_memory.strategy",
        "semantic_memory = 5 is refused; allowed: a group of settings",
        "unknown setting context_managment = {}; did you mean context_management?",
    ):
        assert said in told
    assert "contains itself" in str(problems(context_management={"context_management": MANAGED}))


async def test_from_the_threshold_on_summaries_are_made_before_the_view_needs_them():
    log = session(7, 60)
    for threshold, made in ((None, 0), (len(log), 1), (len(log) + 1, 0)):
        async with begun(max_tokens=1_000_000, summarize_threshold=threshold) as context:
            await context.set_messages(log)
            await context.wait_idle()
            figures = context.statistics()
            assert (min(1, figures.summaries_ready), figures.activations) == (made, 0), threshold


def test_the_documented_configuration_is_taken_as_it_stands(tmp_path: Path):
    file, whole = tmp_path / "agent.json", json.loads(DOCUMENTED)
    assert Settings.from_mapping(whole) == Settings.from_mapping(MANAGED) == KEPT
    assert Settings(**whole) == Settings.load(environ={}, **whole) == KEPT
    file.write_text(DOCUMENTED)
    assert Settings.from_json(file) == Settings.load(file, environ={}) == KEPT
    file.write_text(json.dumps({"agent": {"name": "x", "context_management": MANAGED}}))
    assert Settings.from_json(file, table="agent.context_management") == KEPT
    with pytest.raises(SettingsError, match=r"unknown setting .*agent\.json: agent"):
        Settings.from_json(file)


# Addresses in the place of a store: which are refused, and that no password is shown.

SECRET = "u:hidden@h/d"
UNKNOWN = ("postgresql+psycopg", "postgresq", "Redis", "http")


@pytest.mark.parametrize(
    ("store", "said"),
    [
        *((f"{scheme}://{at}", scheme) for scheme in UNKNOWN for at in (SECRET, "hidden")),
        *((Path(f"{scheme}://{SECRET}"), "refused") for scheme in ("postgresql", "postgresql+psycopg")),
        *((f"postgresql:{at}", "refused") for at in (f"/{SECRET}", SECRET)),
        ("host=h user=u password=hidden dbname=d", "refused"),
    ],
    ids=repr,
)
def test_an_address_that_cannot_serve_is_no_path_and_its_password_is_shown_nowhere(
    store: Any, said: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    monkeypatch.chdir(tmp_path)
    in_a_variable = partial(Settings.from_env, "X_", {"X_STORE": str(store)})
    told = []
    for use in (partial(Settings, store=store), in_a_variable, partial(anyio.run, open_store, store)):
        with pytest.raises(SettingsError) as refused:
            use()
        told.append(str(refused.value))
    for text in told:
        assert ("postgresql://" in text, "hidden" in text, said.lower() in text.lower()) == (True, False, True)
    assert said != "refused" or "hidden" not in shown_store(store)
    for command in ("sessions list", "worker", "sessions export all --out run.jsonl", "status s"):
        assert main([*command.split(), "--store", str(store)]) != 0
        shown = "".join(capsys.readouterr()).lower()
        assert ("hidden" in shown, said == "refused" or said.lower() in shown) == (False, True)
    assert not list(tmp_path.iterdir())

"""Settings: what is accepted, what is refused and how that reads. Where they come from: `test_settings_sources`."""

import contextlib
import dataclasses
import math
import re
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from summarizing_context import Settings, SettingsError, open_store
from summarizing_context.cli import main
from summarizing_context.settings import shown_store

NAMES = [setting.name for setting in dataclasses.fields(Settings)]
PAGE = Path(__file__).parents[2] / "docs" / "configuration.md"
STRATEGIES = ("hierarchical", "summarize", "importance", "truncate")


ODD: list[tuple[str, Any]] = [
    *(("max_tokens", True), ("max_tokens", 16_000.0), ("max_tokens", None), ("high_water", math.nan), ("store", 5)),
    *(("call_timeout", math.inf), ("call_timeout", 0), ("importance_threshold", 1.5), ("max_wait", 10**400)),
    *(("session_id", "a" * 201), ("session_id", "a\n")),
]


def problems(**values: Any) -> tuple[str, ...]:
    with pytest.raises(SettingsError) as caught:
        Settings(**values)
    return caught.value.problems


def test_the_defaults_are_the_documented_ones():
    documented = dict(re.findall(r"^\| `(\w+)` \| `?([^|`]*?)`? \|", PAGE.read_text(encoding="utf-8"), re.MULTILINE))
    defaults = dataclasses.asdict(Settings())
    assert documented.keys() - {"max_tokens"} <= defaults.keys()
    for name, default in defaults.items():
        said = "none" if default in (None, ()) else str(default).lower()
        assert documented[name].replace(",", "") in (said, said.removesuffix(".0"), f"{default}"), name


@pytest.mark.parametrize(
    ("values", "said"),
    [
        ({"max_tokens": 0}, "max_tokens = 0 is refused; allowed: a whole number from 1 to 1,000,000,000"),
        ({"high_water": 1}, "allowed: a number above 0 and below 1"),
        ({"max_calls_per_hour": -1}, "or none"),
        ({"store": ""}, 'a path to a file, ":memory:", or postgresql:'),
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
        ({"hihg_water": 0.5}, "unknown setting hihg_water = 0.5; did you mean high_water?"),
        ({"quux": 5}, "the configuration page lists all settings"),
        *(({name: value}, f"{name} = {value!r}"[:26]) for name, value in ODD),
    ],
)
def test_a_wrong_value_is_refused_with_key_value_and_what_is_allowed(values: dict[str, Any], said: str):
    (problem,) = problems(**values)
    assert said in problem


def test_all_problems_are_told_at_once():
    told = problems(max_token=5, low_water="high", attempts=0, segment_min=8_000)
    named = [problem.split(" = ")[0] for problem in told]
    assert named == ["unknown setting max_token", "low_water", "attempts", "segment_min"]
    assert len(problems(low_water=2.0)) == 1, "it is not blamed a second time for contradicting others"


def test_a_secret_is_in_no_message():
    addresses = ["https://me:very secret@host/v1", "https://host/v1?key=very secret", {"url": "https://me:secret@host"}]
    keys = [("api_key", "sk-very secret"), ("api_key", ["sk-very secret"]), ("apikey", "sk-very secret")]
    for name, value in [*keys, *(("base_url", address) for address in addresses)]:
        assert "secret" not in str(problems(**{name: value}))


def test_the_repr_does_not_show_the_key():
    assert "sk-secret" not in repr(Settings(api_key="sk-secret", embedding_api_key="sk-secret"))


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


# Addresses in the place of a store: which are refused, and that no password is shown.

SECRET = "u:hidden@h/d"


async def refusals(store: Any) -> str:
    """What is said of an address that is refused, by settings and where a store is opened."""
    with pytest.raises(SettingsError) as refused:
        Settings(store=store)
    with pytest.raises(SettingsError) as not_opened:
        await open_store(store)
    for told in (str(refused.value), str(not_opened.value)):
        assert "postgresql://" in told
        assert "hidden" not in told
    return f"{refused.value} {not_opened.value}"


@pytest.mark.parametrize("scheme", ["postgresql+psycopg", "postgresq", "Redis", "http"])
async def test_a_scheme_that_is_not_known_is_refused_by_name(scheme, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for address in (f"{scheme}://{SECRET}", f"{scheme}://hidden"):
        assert (await refusals(address)).lower().count(scheme.lower()) >= 2
        with pytest.raises(SettingsError, match=r"postgresql://") as raised:
            Settings.from_env("X_", {"X_STORE": address})
        assert ("hidden" in str(raised.value), scheme.lower() in str(raised.value)) == (False, True)
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    "store",
    [
        *(Path(f"{scheme}://{SECRET}") for scheme in ("postgresql", "postgresql+psycopg")),
        *(f"postgresql:/{SECRET}", f"postgresql:{SECRET}", "host=h user=u password=hidden dbname=d"),
    ],
    ids=repr,
)
async def test_an_address_that_has_become_a_path_is_no_path(store, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert (await refusals(store)).count("refused") >= 2
    assert "hidden" not in shown_store(store)
    assert not list(tmp_path.iterdir())


def test_commands_show_nothing_behind_an_unknown_scheme(capsys):
    for command in ("sessions list", "worker", "sessions export all --out run.jsonl", "status s"):
        assert main([*command.split(), "--store", f"postgresql+psycopg://{SECRET}"]) != 0
        shown = "".join(capsys.readouterr())
        assert ("hidden" in shown, "postgresql+psycopg" in shown) == (False, True)

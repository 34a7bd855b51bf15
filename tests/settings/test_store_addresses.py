"""Addresses in the place of a store: which are refused, and that no password is shown."""

from pathlib import Path

import pytest

from summarizing_context import Settings, SettingsError
from summarizing_context.assembly import open_store
from summarizing_context.cli import main
from summarizing_context.settings import shown_store

UNKNOWN = ["postgresql+psycopg", "postgresq", "Redis", "http"]


@pytest.mark.parametrize("scheme", UNKNOWN)
@pytest.mark.parametrize("rest", ["u:hidden@h/d", "hidden"])
def test_a_scheme_that_is_not_known_is_refused_by_name(scheme, rest):
    for give in (lambda store: Settings(store=store), lambda s: Settings.from_env("X_", {"X_STORE": s})):
        with pytest.raises(SettingsError, match=r"postgresql://") as raised:
            give(f"{scheme}://{rest}")
        assert scheme.lower() in str(raised.value)
        assert "hidden" not in str(raised.value)
    assert shown_store(f"{scheme}://{rest}") == f"{scheme.lower()}://…"


async def test_no_file_is_made_for_an_unknown_scheme(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(SettingsError, match=r"'postgresql[+]psycopg'.*postgres://") as raised:
        await open_store("postgresql+psycopg://u:hidden@h/d")
    assert "hidden" not in str(raised.value)
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    "store",
    [
        Path("postgresql://u:hidden@h/d"),
        Path("postgresql+psycopg://u:hidden@h/d"),
        "postgresql:/u:hidden@h/d",
        "postgresql:u:hidden@h/d",
        "host=h user=u password=hidden dbname=d",
    ],
    ids=repr,
)
async def test_an_address_that_has_become_a_path_is_no_path(store, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(SettingsError, match=r"refused.*postgresql://") as refused:
        Settings(store=store)
    with pytest.raises(SettingsError, match=r"refused.*postgresql://") as not_opened:
        await open_store(store)
    assert "hidden" not in f"{refused.value} {not_opened.value} {shown_store(store)}"
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    "arguments",
    [
        ["sessions", "list", "--store"],
        ["worker", "--store"],
        ["sessions", "export", "all", "--out", "run.jsonl", "--store"],
        ["status", "s", "--store"],
    ],
)
def test_commands_show_nothing_behind_an_unknown_scheme(arguments, capsys):
    assert main([*arguments, "postgresql+psycopg://u:hidden@h/d"]) != 0
    shown = "".join(capsys.readouterr())
    assert "hidden" not in shown
    assert "postgresql+psycopg" in shown

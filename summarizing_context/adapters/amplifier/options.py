"""The options of an Amplifier mount plan, read into settings; and the choice of a mounted provider."""

from __future__ import annotations

import difflib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, fields
from typing import Any

from summarizing_context.errors import SettingsError
from summarizing_context.settings.checks import KEY_ALIASES, Source, accepted, flattened
from summarizing_context.settings.ledger_rules import LedgerRule, check_rules
from summarizing_context.settings.rules import Maybe, shown
from summarizing_context.settings.values import Settings

_MEMORY = ":memory:"

_DEFAULT_FILE = "~/.amplifier/contexts.db"

_SAME_AS = {
    "compact_threshold": "high_water",
    "compaction_threshold": "high_water",
    "storage_path": "store",
    **KEY_ALIASES,
}

_NULLABLE = frozenset(field.name for field in fields(Settings) if isinstance(field.metadata["rule"], Maybe))

_OWN = ("preserve_system", "persistence", "summary_provider", "ledger_rules", "recall_tool", "memory_tools", "hooks")

_PERSISTENCE = ("enabled", "path", "required", "retain_days")

_MOST_DAYS = 36_500


@dataclass(frozen=True, slots=True)
class MountOptions:
    """What a mount plan asks for."""

    settings: Settings
    names_session: bool = False  # otherwise the host's session gives the name
    preserve_system: bool = True  # else leading system rows are left out of views that stand on summaries
    required: bool = False  # no falling back to memory when the file cannot be used
    retain_days: int | None = None  # sessions unused for longer are deleted from the file
    ledger_rules: tuple[LedgerRule, ...] = ()  # what tools of the host do
    awaits_hooks: bool = False  # before a compaction
    recall_tool: bool = False  # mount the tool `context_recall`
    memory_tools: bool = False  # mount the tools that remember, search and forget
    summary_provider: str | None = None  # mounted provider that makes the summaries; else the one of lowest priority


def read_options(config: Mapping[str, Any] | None) -> MountOptions:
    """The options in `config`; raises `SettingsError` that tells everything that is wrong with them."""
    if config is not None and not isinstance(config, Mapping):
        raise SettingsError(f"the options of a mount plan are a mapping, not {type(config).__name__}")
    flat = flattened(config or {})
    given = {key: value for key, value in flat.values.items() if not _is_unsaid(key, value)}
    problems = [*flat.problems, *(_unknown(key, given[key]) for key in given if not _is_known(key))]
    keep_system = _flag(given, "preserve_system", True, problems)
    recall, memory = (_flag(given, name, False, problems) for name in ("recall_tool", "memory_tools"))
    provider = _provider(given, problems)
    plan = _persistence(given, problems) | _ledger(given, problems)
    settings = _settings(given, plan.pop("store", None), problems)
    if not keep_system and settings is not None and settings.header_role != "user":
        problems.append(f"preserve_system = False needs header_role = 'user', not {settings.header_role!r}")
    awaits_hooks = _awaits_hooks(given, problems)
    if problems or settings is None:
        raise SettingsError(problems)
    return MountOptions(
        settings,
        "session_id" in given,
        keep_system,
        awaits_hooks=awaits_hooks,
        recall_tool=recall,
        memory_tools=memory,
        summary_provider=provider,
        **plan,
    )


def _names() -> list[str]:
    return [*(field.name for field in fields(Settings)), *_SAME_AS, *_OWN]


def _is_known(key: Any) -> bool:
    return isinstance(key, str) and key in _names()


def _is_unsaid(key: Any, value: Any) -> bool:
    """Whether an option is there but empty, as the host's documents have it; null for `idle_after` means never."""
    return (value is None and _is_known(key) and key not in _NULLABLE) or (key == "storage_path" and value == "")


def _unknown(key: Any, value: Any, names: tuple[str, ...] = (), where: str = "") -> str:
    if not isinstance(key, str):
        return f"unknown option {where}({shown(key)}): a name is a string"
    near = difflib.get_close_matches(key[:100], names or _names(), n=1, cutoff=0.4)
    hint = f"did you mean {where}{near[0]}?" if near else "the Amplifier page lists all options"
    said = "" if isinstance(value, str | bytes) else f" = {shown(value)}"  # a text may be a misspelt key's
    return f"unknown option {where}{key[:100]}{said}; {hint}"


def _settings(given: Mapping[str, Any], store: Any, problems: list[str]) -> Settings | None:
    """Our own settings, under whichever of their names they are given."""
    values: dict[str, Any] = {} if store is None else {"store": store}
    called = {"store": "persistence.path"}
    for key, value in given.items():
        name = _SAME_AS.get(key, key)
        if key in _OWN or not _is_known(key) or (name == "store" and store == _MEMORY):
            continue
        if name in values and values[name] != value:
            problems.append(f"{key} is given twice, as {called[name]} too; leave one out")
        values[name], called[name] = value, key
    source = Source(values, label=lambda name: called.get(name, name))
    try:
        return Settings(**accepted(fields(Settings), [source]))
    except SettingsError as error:
        problems.extend(error.problems)
        return None


def _persistence(given: Mapping[str, Any], problems: list[str]) -> dict[str, Any]:
    """`persistence` as `store`, `required` and `retain_days`."""
    persistence = given.get("persistence")
    if persistence is None:
        return {}
    if not isinstance(persistence, Mapping):
        problems.append(
            f"persistence = {shown(persistence)} is refused; allowed: a mapping of {', '.join(_PERSISTENCE)}"
        )
        return {}
    problems += list(_strangers(persistence))
    enabled = _flag(persistence, "enabled", True, problems, "persistence.")
    plan: dict[str, Any] = {"required": _flag(persistence, "required", False, problems, "persistence.")}
    if persistence.get("retain_days") is not None:
        plan["retain_days"] = _days(persistence["retain_days"], problems)
    if not enabled:
        return {**plan, "store": _MEMORY}
    if persistence.get("path") is not None:
        plan["store"] = persistence["path"]
    elif not {"store", "storage_path"} & given.keys():
        plan["store"] = _DEFAULT_FILE
    return plan


def _ledger(given: Mapping[str, Any], problems: list[str]) -> dict[str, Any]:
    try:
        return {"ledger_rules": check_rules(given.get("ledger_rules") or ())}
    except SettingsError as error:
        problems.extend(error.problems)
        return {}


def _awaits_hooks(given: Mapping[str, Any], problems: list[str]) -> bool:
    how = given.get("hooks", "background")
    if how not in ("background", "await"):
        problems.append(f"hooks = {shown(how)} is refused; allowed: 'background' or 'await'")
    return bool(how == "await")


def _provider(given: Mapping[str, Any], problems: list[str]) -> str | None:
    name = given.get("summary_provider")
    if name is None:
        return None
    if not isinstance(name, str) or not name.strip():
        problems.append(f"summary_provider = {shown(name)} is refused; allowed: the name of a mounted provider")
    elif given.get("summarizer") != "host":
        problems.append("summary_provider needs summarizer = 'host'")
    return str(name)


def _strangers(persistence: Mapping[Any, Any]) -> Iterator[str]:
    for key, value in persistence.items():
        if key not in _PERSISTENCE:
            yield _unknown(key, value, _PERSISTENCE, "persistence.")


def _flag(given: Mapping[str, Any], name: str, default: bool, problems: list[str], where: str = "") -> bool:
    value = given.get(name)
    if value is None:
        return default
    if not isinstance(value, bool):
        problems.append(f"{where}{name} = {shown(value)} is refused; allowed: true or false")
        return default
    return value


def _days(value: Any, problems: list[str]) -> int | None:
    if isinstance(value, bool) or not isinstance(value, int) or not 1 <= value <= _MOST_DAYS:
        problems.append(f"persistence.retain_days = {shown(value)} is refused; allowed: 1 to {_MOST_DAYS:,}, or none")
        return None
    return value


_USUAL_PRIORITY = 100  # of a provider that names none; the lowest comes first


def choose_provider(mounted: Any, name: str | None = None) -> Any:
    """The provider of that name; without one, that which the host would choose first. None if there is none."""
    if not isinstance(mounted, Mapping):
        return None
    return min(mounted.values(), key=_priority, default=None) if name is None else mounted.get(name)


def _priority(provider: Any) -> float:
    found = getattr(provider, "priority", None)
    if found is None and isinstance(config := getattr(provider, "config", None), Mapping):
        found = config.get("priority")
    return found if isinstance(found, int | float) and not isinstance(found, bool) else _USUAL_PRIORITY

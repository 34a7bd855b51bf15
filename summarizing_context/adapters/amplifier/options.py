"""The options of an Amplifier mount plan, read into settings; and the choice of a mounted provider."""

from __future__ import annotations

import difflib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Any, Literal

from msgspec import Meta

from summarizing_context.errors import SettingsError
from summarizing_context.settings import values as rules
from summarizing_context.settings.values import Settings, ToolTable

MEMORY = ":memory:"
_DEFAULT_FILE = "~/.amplifier/contexts.db"

_SAME_AS = {
    "compact_threshold": "high_water",
    "compaction_threshold": "high_water",
    "storage_path": "store",
    **rules.KEY_ALIASES,
}

_ProviderName = Annotated[str, Meta(pattern=r"\S", title="the name of a mounted provider")]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Own:
    """The options that are no settings."""

    preserve_system: bool = True  # else leading system rows are left out of views that stand on summaries
    recall_tool: bool = False  # mount the tool `context_recall`
    memory_tools: bool = False  # mount the tools that remember, search and forget
    hooks: Literal["background", "await"] = "background"  # of a compaction
    summary_provider: _ProviderName | None = None  # that makes the summaries; else the one of lowest priority
    ledger_rules: ToolTable = ()  # what tools of the host do


@dataclass(frozen=True, slots=True)
class _Persistence:
    """The option `persistence`."""

    enabled: bool = True
    path: Annotated[str, Meta(title="a path to a file", extra={"read": lambda path: path})] | None = None
    required: bool = False
    retain_days: Annotated[int, Meta(ge=1, le=36_500)] | None = None


_NAMES = [*rules.declared(Settings), *_SAME_AS, *rules.declared(_Own), "persistence"]


@dataclass(frozen=True, slots=True, kw_only=True)
class MountOptions(_Own):
    """What a mount plan asks for."""

    settings: Settings
    names_session: bool = False  # otherwise the host's session gives the name
    required: bool = False  # no falling back to memory when the file cannot be used
    retain_days: int | None = None  # sessions unused for longer are deleted from the file


def read_options(config: Mapping[str, Any] | None) -> MountOptions:
    """Return the options in `config`. Raise `SettingsError` that tells everything that is wrong with them."""
    if config is not None and not isinstance(config, Mapping):
        raise SettingsError(f"the options of a mount plan are a mapping, not {type(config).__name__}")
    flat, problems = rules.flattened(config or {})

    def checked(cls: type, values: Mapping[str, Any], where: str = "") -> dict[str, Any]:
        """Return the values of `cls`, with its defaults for those that are missing or null."""
        given = {name: rules.Given(value, f"{where}{name}") for name, value in values.items() if value is not None}
        kept = {name: one.default for name, one in rules.declared(cls).items()}
        try:
            return kept | rules.accepted(cls, (given, []))
        except SettingsError as error:
            problems.extend(error.problems)
            return kept

    # options that are empty, as the host's documents have them, are not said; null for `idle_after` means never
    given: dict[str, Any] = {}
    nullable = [name for name, setting in rules.declared(Settings).items() if setting.optional]
    for key, (value, _) in flat.items():
        if not isinstance(key, str) or key not in _NAMES:
            problems.append(_unknown(key, value, _NAMES))
        elif (value is not None or key in nullable) and not (key == "storage_path" and value == ""):
            given[key] = value
    own = checked(_Own, {name: given.pop(name) for name in rules.declared(_Own) if name in given})
    if own["summary_provider"] is not None and given.get("summarizer") != "host":
        problems.append("summary_provider needs summarizer = 'host'")

    # where the log is
    persistence = given.pop("persistence", None)
    kept_in, allowed = checked(_Persistence, {}), list(rules.declared(_Persistence))
    store: Any = None
    if isinstance(persistence, Mapping):
        strange = [key for key in persistence if key not in allowed]
        problems += [_unknown(key, persistence[key], allowed, "persistence.") for key in strange]
        known = {key: value for key, value in persistence.items() if key in allowed}
        kept_in = checked(_Persistence, known, "persistence.")
        if not kept_in["enabled"]:
            store = MEMORY
        elif kept_in["path"] is not None or not {"store", "storage_path"} & given.keys():
            store = kept_in["path"] or _DEFAULT_FILE
    elif persistence is not None:
        problems.append(
            f"persistence = {rules.shown(persistence)} is refused; allowed: a mapping of {', '.join(allowed)}"
        )

    # the settings, under whichever of their names they are given
    values = {} if store is None else {"store": rules.Given(store, "persistence.path")}
    for key, value in given.items():
        name = _SAME_AS.get(key, key)
        if name == "store" and store == MEMORY:
            continue
        if name in values and values[name].value != value:
            problems.append(f"{key} is given twice, as {values[name].label} too; leave one out")
        values[name] = rules.Given(value, key)
    try:
        settings = Settings(**rules.accepted(Settings, (values, [])))
    except SettingsError as error:
        raise SettingsError([*problems, *error.problems]) from None
    if not own["preserve_system"] and settings.header_role != "user":
        problems.append(f"preserve_system = False needs header_role = 'user', not {settings.header_role!r}")
    if problems:
        raise SettingsError(problems)
    return MountOptions(
        **own,
        settings=settings,
        names_session="session_id" in given,
        required=kept_in["required"],
        retain_days=kept_in["retain_days"],
    )


def _unknown(key: Any, value: Any, names: list[str], where: str = "") -> str:
    if not isinstance(key, str):
        return f"unknown option {where}({rules.shown(key)}): a name is a string"
    near = difflib.get_close_matches(key[:100], names, n=1, cutoff=0.4)
    hint = f"did you mean {where}{near[0]}?" if near else "the Amplifier page lists all options"
    said = "" if isinstance(value, str | bytes) else f" = {rules.shown(value)}"  # a text may be a misspelt key's
    return f"unknown option {where}{key[:100]}{said}; {hint}"


def choose_provider(mounted: Any, name: str | None = None) -> Any:
    """Return the provider of that name, or without one that which the host would choose first, or None."""

    def priority(provider: Any) -> float:
        found = getattr(provider, "priority", None)
        if found is None and isinstance(config := getattr(provider, "config", None), Mapping):
            found = config.get("priority")
        return found if isinstance(found, int | float) and not isinstance(found, bool) else 100

    if not isinstance(mounted, Mapping):
        return None
    return min(mounted.values(), key=priority, default=None) if name is None else mounted.get(name)

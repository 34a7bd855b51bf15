"""The options of a mount plan: ours, and those of the host's documents."""

from pathlib import Path
from typing import Any

import pytest
from amplifier_core.testing import MockCoordinator

from summarizing_context import Settings, SettingsError, mount
from summarizing_context.adapters.amplifier.plan import read_options

DEFAULT = str(Path("~/.amplifier/contexts.db").expanduser())


async def refusal(config: Any) -> tuple[str, ...]:
    with pytest.raises(SettingsError) as caught:
        await mount(MockCoordinator(), config)
    return caught.value.problems


def test_no_options_mean_our_defaults():
    given = {"preserve_system": False, "session_id": "s", "persistence": {"path": "a.db", "required": True}}
    for config, flags in ((None, (False, True, False)), ({}, (False, True, False)), (given, (True, False, True))):
        plan = read_options(config)
        assert (plan.names_session, plan.preserve_system, plan.required) == flags
        assert config or (plan.settings, plan.settings.max_tokens_is_set) == (Settings(), False)


@pytest.mark.parametrize(
    ("theirs", "ours"),
    [
        ({"compact_threshold": 0.92}, {"high_water": 0.92}),
        ({"compaction_threshold": 0.5}, {"high_water": 0.5}),
        ({"compaction_strategy": "truncate"}, {"strategy": "truncate"}),
        ({"storage_path": "a.db"}, {"store": "a.db"}),
        ({"persistence": {"path": "a.db"}}, {"store": "a.db"}),
        ({"persistence": {"enabled": True, "path": "a.db"}, "storage_path": "a.db"}, {"store": "a.db"}),
        ({"persistence": {"enabled": False, "path": "a.db"}, "storage_path": "b.db"}, {}),
        ({"persistence": {}}, {"store": DEFAULT}),
        ({"persistence": {"path": ""}}, {"store": DEFAULT}),
        ({"persistence": {"enabled": True}}, {"store": DEFAULT}),
        ({"persistence": {"enabled": False}}, {}),
        ({"persistence": None, "preserve_system": None}, {}),
        (dict.fromkeys(("storage_path", "max_tokens", "compact_threshold", "session_id", "idle_after")), {}),
        ({"storage_path": "", "idle_after": "never"}, {"idle_after": "never"}),
        (
            {"semantic_memory": {"enabled": True, "similarity_threshold": 0.7}},
            {"memory_include": "auto", "memory_extract": True, "similarity_threshold": 0.7},
        ),
        ({"storage_path": "~/a.db"}, {"store": str(Path("~/a.db").expanduser())}),
        ({"max_messages": 40, "keep_recent": 10}, {"max_messages": 40, "keep_recent": 10}),
    ],
)
def test_the_hosts_options_mean_what_its_documents_say(theirs, ours):
    assert read_options(theirs).settings == Settings(**ours)


@pytest.mark.parametrize(
    ("config", "words"),
    [
        ({"max_tokns": None}, "did you mean max_tokens?"),
        ({"persistence": {"pth": None}}, "did you mean persistence.path?"),
        ({"compact_treshold": 0.9}, "did you mean compact_threshold?"),
        ({"persistence": {7: 1, "path": "x"}}, "a name is a string"),
        ({"persistence": "a.db"}, "allowed: a mapping of enabled, path, required"),
        ({"persistence": {"path": "x", "enabled": "yes"}}, "persistence.enabled = 'yes' is refused"),
        ({"hooks": "later"}, "hooks = 'later' is refused; allowed: one of background, await"),
        ({"preserve_system": "no"}, "preserve_system = 'no' is refused"),
        ({"preserve_system": False, "header_role": "system"}, "needs header_role = 'user'"),
        ({"compact_threshold": 2}, "compact_threshold = 2 is refused"),
        ({"compact_threshold": 0.9, "high_water": 0.8}, "high_water is given twice, as compact_threshold too"),
        ({"storage_path": "a", "persistence": {"path": "b"}}, "storage_path is given twice, as persistence.path too"),
        ({"summarizer": "openai"}, "needs a model"),
        *((wrong, "are a mapping") for wrong in (5, "text", [("max_tokens", 5)])),
    ],
)
async def test_a_refusal_names_the_option_and_says_what_to_do(config, words):
    assert words in "\n".join(await refusal(config))


async def test_all_problems_are_told_at_once_and_no_key_is_shown():
    wrong = {"max_tokens": 0, "nonsense": 1, "persistence": {"path": "x", "enabled": "x"}, "preserve_system": 3}
    assert len(await refusal(wrong)) == 4
    assert "secret-1234" not in str(await refusal({"api_kye": "secret-1234", "api_key": "secret 1234"}))

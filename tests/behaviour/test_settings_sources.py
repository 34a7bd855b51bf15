"""Where settings come from: a TOML file, the environment, arguments; and which of them wins."""

from pathlib import Path

import pytest

from summarizing_context import Settings, SettingsError


@pytest.mark.parametrize(
    ("source", "said"),
    [
        ("[summarizing_context]\nmax_tokens = '5'\n", "[summarizing_context] max_tokens = '5' is refused"),
        ("[summarizing_context]\nmodell = 5\n", "did you mean"),
        ("[summarizing_context]\nlow_water = 0.95\n", "[summarizing_context] low_water = 0.95 must be below"),
        ("[other]\n", "has no table [summarizing_context]"),
        ("summarizing_context = 5\n", "has no table [summarizing_context]"),
        ("[summarizing_context\n", "cannot be read"),
        ({"MAX_TOKEN": "5"}, "did you mean SUMMARIZING_CONTEXT_MAX_TOKENS?"),
        ({"MAX_TOKENS": "many"}, "SUMMARIZING_CONTEXT_MAX_TOKENS = 'many' is refused"),
        ({"MERGE_USER_ROWS": "maybe"}, "true or false"),
        ({"STORE": ""}, "SUMMARIZING_CONTEXT_STORE = ''"),
    ],
)
def test_an_error_names_the_file_or_the_variable(tmp_path, source, said):
    file, is_file = tmp_path / "run.toml", isinstance(source, str)
    file.write_text(source if is_file else "")
    environ = {} if is_file else {f"SUMMARIZING_CONTEXT_{name}": text for name, text in source.items()}
    with pytest.raises(SettingsError) as caught:
        Settings.from_toml(file) if is_file else Settings.from_env(environ=environ)
    assert (str(file) in str(caught.value)) == is_file
    assert said in str(caught.value)


def test_an_argument_goes_over_the_environment_over_a_file_over_the_default(tmp_path: Path):
    file = tmp_path / "run.toml"
    file.write_text("[summarizing_context]\nmax_tokens = 1\nattempts = 1\nconcurrency = 1\n")
    environ = {"SUMMARIZING_CONTEXT_MAX_TOKENS": "2", "SUMMARIZING_CONTEXT_ATTEMPTS": "2"}
    loaded = Settings.load(file, environ=environ, max_tokens=3)
    assert (loaded.max_tokens, loaded.attempts, loaded.concurrency, loaded.image_tokens) == (3, 2, 1, 1_600)
    # the environment is parsed by the type of each setting
    texts = {"MAX_TOKENS": "16_000", "HIGH_WATER": "0.7", "MERGE_USER_ROWS": "Yes", "IDLE_AFTER": "never", "MODEL": "m"}
    environ = {f"SUMMARIZING_CONTEXT_{name}": text for name, text in texts.items()} | {"HOME": "x"}
    expected = Settings(max_tokens=16_000, high_water=0.7, merge_user_rows=True, idle_after="never", model="m")
    assert Settings.from_env(environ=environ) == expected
    assert Settings.load(environ={"SUMMARIZING_CONTEXT_PROXY_TOKEN": "secret"}) == Settings(), "it is of a server"

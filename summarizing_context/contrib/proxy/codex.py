"""How Codex is sent through the proxy: it reads no base URL from the environment, but its configuration alone.

Measured with Codex 0.169 and 0.171: `OPENAI_BASE_URL` is ignored; `openai_base_url` and a table of `model_providers`
count, in `config.toml` and by `-c`. A session is resumed with the provider's name that it began with, or not at all.
"""

from __future__ import annotations

import json
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

from summarizing_context.contrib.proxy.upstream import TOKEN_HEADER
from summarizing_context.errors import SettingsError

TOKEN_VARIABLE = "SUMMARIZING_CONTEXT_PROXY_TOKEN"
CHATGPT = "https://chatgpt.com/backend-api/codex"  # where Codex asks with a login of ChatGPT
_PROVIDER = "summarizing-context"


class Codex(NamedTuple):
    """What Codex is set to."""

    config: Path
    provider: str
    base_url: str | None
    by_chatgpt: bool  # its login

    def trouble(self, token: str, *, openai: str | None) -> str | None:
        """Return why its requests cannot be sent through a proxy in front of `openai`, or None."""
        if self.by_chatgpt and openai is None:
            return "its login of ChatGPT asks another server, and packed; use `summarizing-context proxy run -- codex`"
        if self.provider not in ("openai", _PROVIDER):
            return f"{self.config}: model_provider is {self.provider!r}, and the proxy stands in for OpenAI alone"
        if self.base_url is not None and f"/token/{token}/" not in self.base_url:
            return f"{self.config}: openai_base_url is {self.base_url!r}; take it out, and name it by --openai instead"
        return None


def config_file(environ: Mapping[str, str], home: Path) -> Path:
    """Return where Codex keeps its configuration."""
    return Path(environ.get("CODEX_HOME") or home / ".codex") / "config.toml"


def read_codex(environ: Mapping[str, str], home: Path) -> Codex | None:
    """Return what Codex is set to, or None where it has no folder. Raises `SettingsError` for a broken file."""
    config = config_file(environ, home)
    login = config.with_name("auth.json")
    if not config.parent.is_dir():
        return None
    try:
        told = tomllib.loads(config.read_text(encoding="utf-8")) if config.exists() else {}
        known = json.loads(login.read_text(encoding="utf-8")) if login.exists() else {}
    except (OSError, ValueError) as error:
        raise SettingsError(f"the files of Codex in {config.parent} cannot be read: {error}") from error
    by_chatgpt = bool(known.get("tokens")) and not known.get("OPENAI_API_KEY")
    return Codex(config, told.get("model_provider", "openai"), told.get("openai_base_url"), by_chatgpt)


def arguments_for(address: str, *, by_chatgpt: bool) -> list[str]:
    """Return what sends one run of Codex to a proxy. The token goes by the environment: all users see arguments.

    To a provider that is called OpenAI, Codex sends fields that are documented nowhere, and asks it to compact. With a
    login of ChatGPT it is OpenAI that answers, and then a header of routing is sent too.
    """
    called = "OpenAI" if by_chatgpt else _PROVIDER
    table = (
        f'name = "{called}", base_url = "{address}/v1", wire_api = "responses", requires_openai_auth = true, '
        f'supports_websockets = false, env_http_headers = {{ "{TOKEN_HEADER.decode()}" = "{TOKEN_VARIABLE}" }}'
    )
    settings = [f"model_providers.{_PROVIDER}={{ {table} }}", f"model_provider={_PROVIDER}"]
    settings += ["features.enable_request_compression=false"] if by_chatgpt else []  # views need the text
    return [word for setting in settings for word in ("-c", setting)]

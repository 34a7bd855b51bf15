"""The real clients: where their programs come from, and how each is run without a screen, resumed and compacted.

Each runs with a home of its own in a temporary folder, without a login, its base URL at whatever is measured.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import uuid
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

FOLDER = Path(__file__).parent / ".programs"

PINS = {  # of npm, as measured last
    "claude": ("@anthropic-ai/claude-code", "2.1.332"),
    "codex": ("@openai/codex", "0.169.0"),
    "opencode": ("opencode-ai", "1.18.33"),
}

_KEY = "sk-none"  # the provider asks for none


class Ready(NamedTuple):
    """A command to run."""

    arguments: Sequence[str]
    environment: dict[str, str]


def install(name: str, folder: Path = FOLDER) -> Path:
    """The program of a client, installed by npm where it is not there. Raises `OSError` and `RuntimeError`."""
    package, version = PINS[name]
    program = folder / "node_modules" / ".bin" / name
    told = folder / "node_modules" / package / "package.json"
    if not (program.exists() and told.exists() and json.loads(told.read_text())["version"] == version):
        if shutil.which("npm") is None:
            raise RuntimeError("the clients come from npm, which is not installed")
        folder.mkdir(parents=True, exist_ok=True)
        command = ["npm", "install", "--no-audit", "--no-fund", "--prefix", str(folder), f"{package}@{version}"]
        subprocess.run(command, check=True, capture_output=True, timeout=600)
    return program


@dataclass
class Program:
    """One client in its folder; `address` is what its requests go to."""

    program: Path
    folder: Path
    address: str
    session: str = ""

    def environment(self) -> dict[str, str]:
        home = self.folder / "home"
        home.mkdir(parents=True, exist_ok=True)
        return {"PATH": os.environ["PATH"], "HOME": str(home), "TERM": "dumb", "LANG": "C.UTF-8"}

    def say(self, text: str) -> Ready:
        """Say something in the session, or begin it with that."""
        raise NotImplementedError  # of each client

    def heard(self, output: str) -> str:
        """The last words of the model that the client printed; the session's id is noted."""
        raise NotImplementedError


class Claude(Program):
    """Claude Code."""

    dialect = "anthropic"

    def say(self, text: str) -> Ready:
        resumed = ["--resume", self.session] if self.session else ["--session-id", self._begin()]
        given = ["-p", text, "--output-format", "json", "--dangerously-skip-permissions"]
        return Ready([str(self.program), *given, *resumed], self._environment())

    def compact(self) -> Ready:
        """Its own compaction."""
        return self.say("/compact")

    def _begin(self) -> str:
        self.session = str(uuid.uuid4())
        return self.session

    def _environment(self) -> dict[str, str]:
        quiet = {"CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1", "DISABLE_AUTOUPDATER": "1", "IS_SANDBOX": "1"}
        return {**self.environment(), **quiet, "ANTHROPIC_BASE_URL": self.address, "ANTHROPIC_API_KEY": _KEY}

    def heard(self, output: str) -> str:
        return next((str(each.get("result", "")) for each in _objects(output) if each.get("type") == "result"), "")


class Codex(Program):
    """Codex."""

    dialect = "responses"

    def say(self, text: str) -> Ready:
        given = ["--json", "--skip-git-repo-check", "--dangerously-bypass-approvals-and-sandbox"]
        resumed = ["resume", *given, self.session, text] if self.session else [*given, text]
        return Ready([str(self.program), "exec", *resumed], self._environment())

    def serve(self) -> Ready:
        """Its server, which compacts a session as `/compact` does on the screen."""
        return Ready([str(self.program), "app-server"], self._environment())

    def _environment(self) -> dict[str, str]:
        home = self.folder / "home" / ".codex"
        self._configure(home)
        return {**self.environment(), "OPENAI_API_KEY": _KEY, "CODEX_HOME": str(home)}

    def _configure(self, home: Path) -> None:
        home.mkdir(parents=True, exist_ok=True)
        provider = {
            "name": "loop",
            "base_url": f"{self.address}/v1",
            "env_key": "OPENAI_API_KEY",
            "wire_api": "responses",
        }
        lines = ['model = "gpt-5.1-codex"', 'model_provider = "loop"', "[features]", "multi_agent = true"]
        lines += ["[model_providers.loop]", *(f"{name} = {json.dumps(value)}" for name, value in provider.items())]
        (home / "config.toml").write_text("\n".join(lines) + "\n")

    def heard(self, output: str) -> str:
        words = ""
        for each in _objects(output):
            if each.get("type") == "thread.started" and not self.session:
                self.session = each["thread_id"]
            item = each.get("item", {})
            if each.get("type") == "item.completed" and item.get("type") == "agent_message":
                words = str(item["text"])
        return words


class OpenCode(Program):
    """OpenCode, with a provider that speaks Chat Completions."""

    dialect = "chat"

    def say(self, text: str) -> Ready:
        resumed = ["--session", self.session] if self.session else []
        given = ["run", "--format", "json", "--print-logs", "--log-level", "ERROR", *resumed, text]
        return Ready([str(self.program), *given], self._environment())

    def serve(self, port: int) -> Ready:
        """Its server, which compacts a session on a `POST` to `compaction_path`."""
        return Ready([str(self.program), "serve", "--hostname", "127.0.0.1", "--port", str(port)], self._environment())

    @property
    def compaction_path(self) -> str:
        return f"/session/{self.session}/summarize"

    compaction_body = '{"providerID": "loop", "modelID": "m1"}'

    def _environment(self) -> dict[str, str]:
        model = {"name": "m1", "limit": {"context": 200_000, "output": 8_000}}
        options = {"baseURL": f"{self.address}/v1", "apiKey": _KEY}
        provider = {"npm": "@ai-sdk/openai-compatible", "name": "loop", "options": options, "models": {"m1": model}}
        config = {"model": "loop/m1", "provider": {"loop": provider}, "autoupdate": False, "share": "disabled"}
        config["permission"] = {"bash": "allow", "task": "allow"}
        quiet = {"OPENCODE_DISABLE_MODELS_FETCH": "1", "OPENCODE_DISABLE_AUTOUPDATE": "1"}
        return {**self.environment(), **quiet, "OPENCODE_CONFIG_CONTENT": json.dumps(config)}

    def heard(self, output: str) -> str:
        words = ""
        for each in _objects(output):
            self.session = self.session or each.get("sessionID", "")
            if each.get("type") == "text":
                words = str(each["part"]["text"])
        return words


PROGRAMS: dict[str, type[Claude] | type[Codex] | type[OpenCode]] = {
    "claude": Claude,
    "codex": Codex,
    "opencode": OpenCode,
}


def _objects(output: str) -> Iterator[dict[str, Any]]:
    """The JSON objects of an output, one a line, whatever else stands between them."""
    for line in output.splitlines():
        if line.startswith("{"):
            try:
                found = json.loads(line)
            except ValueError:
                continue
            if isinstance(found, dict):
                yield found

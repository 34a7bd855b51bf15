"""The real clients: where their programs come from, and how each is run without a screen and resumed.

Each runs with a home of its own in a temporary folder, without a login, its base URL at whatever is measured.
"""

import json
import os
import subprocess
import uuid
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

FOLDER = Path(__file__).parent / ".programs"
_KEY = "sk-none"  # the provider asks for none


class Program:
    """One client in a folder of its own; `address` is what its requests go to."""

    name, package, version = "", "", ""  # of npm, as measured last
    compaction = ""  # what has it compact its own session, if that can be said to it
    plugin = ""  # the name of its plug-in, if it has one
    takes_over: Sequence[str] = ()  # what `continue --in` is given, if it can go on with another's session
    beside: Sequence[str] = ()  # other packages of npm that it needs
    own_limit = 0  # tokens from which it compacts its own session; 0 for its usual

    def __init__(self, programs: Path, folder: Path) -> None:
        """Have npm install the program where it is not there. Raise `OSError` or `SubprocessError` if it cannot."""
        modules, self.folder, self.home = (programs / "node_modules").absolute(), folder, folder / "home"
        self.program, about = modules / ".bin" / self.name, modules / self.package / "package.json"
        if not about.exists() or json.loads(about.read_text())["version"] != self.version:
            programs.mkdir(parents=True, exist_ok=True)
            command = ["npm", "install", "--no-audit", "--no-fund", "--prefix", str(programs)]
            command += [f"{self.package}@{self.version}", *self.beside]
            subprocess.run(command, check=True, capture_output=True, timeout=600)
        self.address = self.session = ""

    def environment(self) -> dict[str, str]:
        """Return the variables that it runs with, as does whatever starts it."""
        self.home.mkdir(parents=True, exist_ok=True)
        path = f"{self.program.parent}:{os.environ['PATH']}"
        ours = {"PYTHONPATH": os.getcwd(), "NO_COLOR": "1"}
        return {"PATH": path, "HOME": str(self.home), "TERM": "dumb", "LANG": "C.UTF-8", **ours}

    def command(self, text: str) -> list[str]:
        """Return the command that says something in the session, or begins it with that."""
        raise NotImplementedError  # of each client

    def heard(self, output: str) -> str:
        """Return the last words of the model that the client printed; the session's id is noted."""
        words = ""
        for line in [line for line in output.splitlines() if line.startswith("{")]:
            with suppress(ValueError):
                words = self.words(json.loads(line)) or words
        return words

    def words(self, event: dict[str, Any]) -> str:
        """Return the words of the model in a line of JSON that the client printed, if it holds any."""
        raise NotImplementedError


class Claude(Program):
    """Claude Code."""

    name, package, version = "claude", "@anthropic-ai/claude-code", "2.1.332"
    compaction = "/compact"
    plugin = "claude-code"
    takes_over = ("claude-code", "--", "-p")

    def environment(self) -> dict[str, str]:
        quiet = {"CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1", "DISABLE_AUTOUPDATER": "1", "IS_SANDBOX": "1"}
        quiet |= {"CLAUDE_CODE_AUTO_COMPACT_WINDOW": str(self.own_limit)} if self.own_limit else {}
        return {**super().environment(), **quiet, "ANTHROPIC_BASE_URL": self.address, "ANTHROPIC_API_KEY": _KEY}

    def command(self, text: str) -> list[str]:
        place = "--resume" if self.session else "--session-id"
        self.session = self.session or str(uuid.uuid4())
        given = ["-p", text, "--output-format", "json", "--dangerously-skip-permissions"]
        return [str(self.program), *given, place, self.session]

    def words(self, event: dict[str, Any]) -> str:
        return str(event.get("result", "")) if event.get("type") == "result" else ""


class Codex(Program):
    """Codex."""

    name, package, version = "codex", "@openai/codex", "0.171.0"
    takes_over = ("codex", "--", "exec", "--skip-git-repo-check")

    def environment(self) -> dict[str, str]:
        home = self.home / ".codex"
        home.mkdir(parents=True, exist_ok=True)
        limit = f"model_auto_compact_token_limit = {self.own_limit}\n" if self.own_limit else ""
        (home / "config.toml").write_text(
            f'model = "gpt-5.1-codex"\nmodel_provider = "loop"\n{limit}[features]\nmulti_agent = true\n'
            "[model_providers.loop]\n"
            f'name = "loop"\nbase_url = "{self.address}/v1"\nenv_key = "OPENAI_API_KEY"\nwire_api = "responses"\n'
        )
        return {**super().environment(), "OPENAI_API_KEY": _KEY, "CODEX_HOME": str(home)}

    def command(self, text: str) -> list[str]:
        given = ["--json", "--skip-git-repo-check", "--dangerously-bypass-approvals-and-sandbox"]
        resumed = ["resume", *given, self.session, text] if self.session else [*given, text]
        return [str(self.program), "exec", *resumed]

    def words(self, event: dict[str, Any]) -> str:
        self.session = self.session or event.get("thread_id", "")
        item = event.get("item", {}) if event.get("type") == "item.completed" else {}
        return str(item["text"]) if item.get("type") == "agent_message" else ""


class OpenCode(Program):
    """OpenCode, with a provider that speaks Chat Completions."""

    name, package, version = "opencode", "opencode-ai", "1.18.33"
    plugin = "opencode"
    takes_over = ("opencode", "--", "run")

    def environment(self) -> dict[str, str]:
        model = {"name": "m1", "limit": {"context": self.own_limit or 200_000, "output": 8_000}}
        options = {"baseURL": f"{self.address}/v1", "apiKey": _KEY}
        provider = {"npm": "@ai-sdk/openai-compatible", "name": "loop", "options": options, "models": {"m1": model}}
        config = {"model": "loop/m1", "provider": {"loop": provider}, "autoupdate": False, "share": "disabled"}
        config["permission"] = {"bash": "allow", "task": "allow"}
        quiet = {"OPENCODE_DISABLE_MODELS_FETCH": "1", "OPENCODE_DISABLE_AUTOUPDATE": "1"}
        return {**super().environment(), **quiet, "OPENCODE_CONFIG_CONTENT": json.dumps(config)}

    def command(self, text: str) -> list[str]:
        resumed = ["--session", self.session] if self.session else []
        return [str(self.program), "run", "--format", "json", "--print-logs", "--log-level", "ERROR", *resumed, text]

    def words(self, event: dict[str, Any]) -> str:
        self.session = self.session or event.get("sessionID", "")
        return str(event["part"]["text"]) if event.get("type") == "text" else ""


class Pi(Program):
    """Pi, with a provider of Chat Completions and a window of 40,000 tokens. It needs 30 steps."""

    name, package, version = "pi", "@earendil-works/pi-coding-agent", "1.6.0"
    beside = ("node@22",)
    plugin = "pi"

    def environment(self) -> dict[str, str]:
        home = self.home / ".pi" / "agent"
        home.mkdir(parents=True, exist_ok=True)
        model: dict[str, Any] = {"id": "m1", "input": ["text"], "contextWindow": 40_000, "maxTokens": 4_000}
        model["cost"] = dict.fromkeys(("input", "output", "cacheRead", "cacheWrite"), 0)
        provider = {"baseUrl": f"{self.address}/v1", "api": "openai-completions", "apiKey": _KEY, "models": [model]}
        (home / "models.json").write_text(json.dumps({"providers": {"loop": provider}}))
        compaction = {"enabled": True, "reserveTokens": 8_000, "keepRecentTokens": 4_000}
        (home / "settings.json").write_text(json.dumps({"compaction": compaction}))
        usual, node = super().environment(), self.program.parents[1] / "node" / "bin"
        return {**usual, "PATH": f"{node}:{usual['PATH']}", "PI_OFFLINE": "1"}

    def command(self, text: str) -> list[str]:
        place = ["-c"] if self.session else []
        self.session = "latest"
        return [str(self.program), "--provider", "loop", "--model", "m1", *place, "-p", text]

    def heard(self, output: str) -> str:
        return output


PROGRAMS: dict[str, type[Program]] = {one.name: one for one in (Claude, Codex, OpenCode, Pi)}

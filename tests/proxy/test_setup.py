"""`proxy enable` and `disable`: what is shown, what is written, and that a home is afterwards as it was before."""

from __future__ import annotations

import itertools
import plistlib
import socket
import subprocess
import sys
import threading
import tomllib
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from summarizing_context.cli import main
from summarizing_context.contrib.proxy.installation import service_of

TOKEN = Path(".config/summarizing-context/proxy-token")
UNIT = Path(".config/systemd/user/summarizing-context-proxy.service")

MANAGER = """#!/bin/sh
echo "$(basename "$0") $*" >> "$HOME/calls"
"""


class Started(BaseHTTPRequestHandler):
    """Answers as the proxy that the service manager has started."""

    status = 200

    def do_GET(self) -> None:
        self.send_response(self.status)
        self.end_headers()
        self.wfile.write(b"{}")

    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture
def ports() -> Iterator[tuple[str, str]]:
    """Two ports at which a proxy answers."""
    servers = [ThreadingHTTPServer(("127.0.0.1", 0), Started) for _ in range(2)]
    for server in servers:
        threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True).start()
    yield str(servers[0].server_port), str(servers[1].server_port)
    for server in servers:
        server.shutdown()
        server.server_close()


@pytest.fixture
def enable(ports: tuple[str, str]) -> list[str]:
    return ["proxy", "enable", "--store", "p.db", "--yes", "--listen", ports[0]]


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty home of a Linux user, whose service managers only note how they are called."""
    home, programs = tmp_path / "home", tmp_path / "programs"
    home.mkdir()
    programs.mkdir()
    for name in ("systemctl", "launchctl"):
        (programs / name).write_text(MANAGER)
        (programs / name).chmod(0o755)
    for name in ("XDG_CONFIG_HOME", "ZDOTDIR", "ANTHROPIC_BASE_URL", "OPENAI_BASE_URL"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", str(home))
    monkeypatch.setenv("SHELL", "/bin/bash")
    monkeypatch.setenv("PATH", f"{programs}:/usr/bin:/bin")
    monkeypatch.setattr(sys, "platform", "linux")
    monkeypatch.chdir(home)
    return home


def contents(home: Path) -> dict[str, bytes]:
    return {str(path.relative_to(home)): path.read_bytes() for path in home.rglob("*") if path.is_file()}


def calls(home: Path) -> list[str]:
    return (home / "calls").read_text().splitlines()


@pytest.mark.parametrize(
    ("shell", "file", "line"),
    [
        ("bash", ".bashrc", 'export ANTHROPIC_BASE_URL="http://127.0.0.1:{port}/token/$(cat {token})"'),
        ("zsh", ".zshrc", 'export OPENAI_BASE_URL="http://127.0.0.1:{port}/token/$(cat {token})/v1"'),
        ("fish", ".config/fish/config.fish", "set -gx OPENAI_BASE_URL http://127.0.0.1:{port}/token/(cat {token})/v1"),
    ],
)
def test_both_are_shown_in_full_and_written(
    shell: str, file: str, line: str, home: Path, enable: list[str], capsys: pytest.CaptureFixture[str]
):
    assert main([*enable, "--shell", shell, "--budget", "60k"]) == 0
    shown = capsys.readouterr().out
    for path in (file, UNIT):
        assert str(home / path) in shown
        assert (home / path).read_text().strip() in shown
    assert line.format(port=enable[-1], token=home / TOKEN) in (home / file).read_text().splitlines()
    assert (home / TOKEN).stat().st_mode & 0o777 == 0o600
    assert (home / TOKEN).read_text().strip() not in shown + (home / file).read_text() + (home / UNIT).read_text()
    unit = (home / UNIT).read_text()
    assert f'"--store" "{home}/p.db" "--budget" "60k" "--listen" "127.0.0.1:{enable[-1]}"' in unit
    assert calls(home)[-1] == "systemctl --user restart summarizing-context-proxy.service"


@pytest.mark.parametrize("before", [b"# mine\nexport A=1\n", b"export A=1", None, b"\xff\xfe not text\r\n"])
def test_a_home_is_afterwards_as_it_was_before(before: bytes | None, home: Path, enable: list[str]):
    if before is not None:
        (home / ".bashrc").write_bytes(before)
        (home / ".bashrc").chmod(0o640)
    (home / ".zshrc").write_text("# of another shell\n")
    there = contents(home)
    assert main(enable) == 0
    new = {"calls", str(UNIT), str(TOKEN)} | ({".bashrc"} if before is None else set())
    assert contents(home).keys() - there.keys() == new
    assert main(["proxy", "disable", "--yes"]) == 0
    assert "systemctl --user disable --now summarizing-context-proxy.service" in calls(home)
    (home / "calls").unlink()
    assert contents(home) == there
    assert before is None or (home / ".bashrc").stat().st_mode & 0o777 == 0o640


def test_twice_is_as_once_and_another_address_takes_the_place_of_the_first(
    home: Path, enable: list[str], ports: tuple[str, str]
):
    assert [main(enable), main(enable)] == [0, 0]
    once = (home / ".bashrc").read_bytes()
    assert calls(home)[-1].endswith("start summarizing-context-proxy.service")
    with (home / ".bashrc").open("a") as file:
        file.write("export LATER=1\n")
    assert main([*enable, "--listen", ports[1]]) == 0
    assert (home / ".bashrc").read_bytes() == once.replace(*(port.encode() for port in ports)) + b"export LATER=1\n"
    assert [main(["proxy", "disable", "--yes"]), main(["proxy", "disable", "--yes"])] == [0, 0]
    assert (home / ".bashrc").read_text() == "export LATER=1\n"


def test_a_line_without_an_end_stays_apart_from_what_was_added_later(home: Path):
    (home / ".bashrc").write_bytes(b"export A=1")
    main(["proxy", "enable", "--store", "p.db", "--yes", "--no-service"])
    with (home / ".bashrc").open("a") as file:
        file.write("export LATER=1\n")
    main(["proxy", "disable", "--yes"])
    assert (home / ".bashrc").read_text() == "export A=1\nexport LATER=1\n"


def test_a_linked_file_stays_a_link(home: Path, tmp_path: Path):
    (tmp_path / "kept").write_text("# kept elsewhere\n")
    (home / ".bashrc").symlink_to(tmp_path / "kept")
    main(["proxy", "enable", "--store", "p.db", "--yes", "--no-service"])
    assert (home / ".bashrc").is_symlink()
    assert "ANTHROPIC_BASE_URL" in (tmp_path / "kept").read_text()
    main(["proxy", "disable", "--yes"])
    assert (tmp_path / "kept").read_text() == "# kept elsewhere\n"


@pytest.mark.parametrize("arguments", [["enable", "--store", "p.db"], ["disable"]])
def test_nothing_is_written_without_an_answer_and_by_a_dry_run(
    arguments: list[str], home: Path, enable: list[str], monkeypatch: pytest.MonkeyPatch
):
    if arguments == ["disable"]:
        main(enable)
    there = contents(home)
    assert main(["proxy", *arguments, "--dry-run"]) == 0
    assert contents(home) == there
    with open("/dev/null") as nothing:
        monkeypatch.setattr(sys, "stdin", nothing)
        assert main(["proxy", *arguments]) == 2
    assert contents(home) == there


@pytest.mark.parametrize(
    ("arguments", "environment", "words"),
    [
        (["--listen", "0.0.0.0:8377"], {}, "loopback"),
        (["--listen", "0"], {}, "loopback"),
        (["--summarizer", "anthropic", "--model", "m"], {}, "no key"),
        (["--shell", "csh"], {}, "bash, zsh, fish"),
        ([], {"ANTHROPIC_BASE_URL": "https://gateway.example"}, "--anthropic https://gateway.example"),
        ([], {"OPENAI_BASE_URL": "https://gateway.example/v1"}, "--openai https://gateway.example/v1"),
    ],
)
def test_what_would_not_work_is_refused(
    arguments: list[str],
    environment: dict[str, str],
    words: str,
    home: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
):
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    assert main(["proxy", "enable", "--store", "p.db", "--yes", *arguments]) == 2
    assert words in capsys.readouterr().err
    assert contents(home) == {}


def test_a_file_of_somebody_else_and_a_half_block_are_left_alone(home: Path, capsys: pytest.CaptureFixture[str]):
    (home / UNIT).parent.mkdir(parents=True)
    (home / UNIT).write_text("[Service]\nExecStart=/bin/true\n")
    (home / ".bashrc").write_text("# >>> summarizing-context proxy >>>\nexport A=1\n")
    there = contents(home)
    assert main(["proxy", "enable", "--store", "p.db", "--yes"]) == 2
    assert main(["proxy", "disable", "--yes"]) == 2
    assert "by hand" in capsys.readouterr().err
    (home / ".bashrc").unlink()
    assert main(["proxy", "enable", "--store", "p.db", "--yes"]) == 2
    assert "--no-service" in capsys.readouterr().err
    assert contents(home) == {name: held for name, held in there.items() if name != ".bashrc"}


@pytest.mark.parametrize("fails", ["daemon-reload", "start|restart"])
def test_where_no_service_can_start_the_proxy_nothing_is_left_and_the_way_out_is_told(
    fails: str, home: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    manager = f"#!/bin/sh\ncase $2 in {fails}) echo no bus >&2; exit 1;; esac\n"
    (tmp_path / "programs" / "systemctl").write_text(manager)
    (home / ".bashrc").write_text("# mine\n")
    assert main(["proxy", "enable", "--store", "p.db", "--yes"]) == 4
    told = capsys.readouterr().err
    assert "failed (no bus)" in told
    assert "--no-service" in told
    assert "proxy run" in told
    assert contents(home) == {".bashrc": b"# mine\n"}


def test_a_service_whose_port_another_program_has_is_taken_back_and_told(
    home: Path, enable: list[str], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    monkeypatch.setattr(Started, "status", 401)
    assert main(enable) == 4
    told = capsys.readouterr().err
    assert all(words in told for words in (f"127.0.0.1:{enable[-1]}", "401", "nothing is left", "proxy run"))
    assert contents(home).keys() == {"calls"}


def test_a_service_that_never_answers_is_taken_back_and_told(
    home: Path, enable: list[str], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        free = str(taken.getsockname()[1])
    passed = itertools.count(step=30.0)
    monkeypatch.setattr("time.monotonic", lambda: next(passed))
    assert main([*enable, "--listen", free]) == 4
    assert f"no proxy answers at http://127.0.0.1:{free}" in capsys.readouterr().err
    assert contents(home).keys() == {"calls"}


def test_words_reach_the_service_as_they_are(tmp_path: Path):
    words = ["/opt/my python", "--store", 'a"b\\c$HOME%h']
    unit = service_of("linux", tmp_path, {}, words).text.decode()
    assert 'ExecStart="/opt/my python" "--store" "a\\"b\\\\c$$HOME%%h"' in unit.splitlines()
    agent = service_of("darwin", tmp_path, {}, words)
    assert plistlib.loads(agent.text)["ProgramArguments"] == words
    assert agent.path.parent == tmp_path / "Library" / "LaunchAgents"
    assert [call.words[1] for call in (*agent.restart, *agent.stop)] == ["bootout", "bootstrap", "bootout"]


def test_the_lines_are_read_by_a_real_shell(home: Path, capsys: pytest.CaptureFixture[str]):
    assert main(["proxy", "enable", "--store", "p.db", "--yes", "--no-service"]) == 0
    assert "proxy --store" in capsys.readouterr().err, "how the proxy is started by hand"
    asking = f". {home}/.bashrc; echo $ANTHROPIC_BASE_URL $OPENAI_BASE_URL"
    said = subprocess.run(["bash", "-c", asking], capture_output=True, text=True, timeout=120, check=True).stdout
    base = f"http://127.0.0.1:8377/token/{(home / TOKEN).read_text().strip()}"
    assert said.split() == [base, f"{base}/v1"]


def test_codex_is_sent_by_its_own_configuration_which_becomes_private(
    home: Path, enable: list[str], ports: tuple[str, str], capsys: pytest.CaptureFixture[str]
):
    (home / ".codex").mkdir()
    config = home / ".codex" / "config.toml"
    before = b'model = "gpt-x"\n[features]\nshell_tool = true\n'
    config.write_bytes(before)
    config.chmod(0o644)
    assert main(enable) == 0
    shown = capsys.readouterr().out
    url = f"http://127.0.0.1:{ports[0]}/token/{(home / TOKEN).read_text().strip()}/v1"
    told = tomllib.loads(config.read_text())
    assert told == {"openai_base_url": url, **tomllib.loads(before.decode())}
    assert config.stat().st_mode & 0o777 == 0o600
    assert f'openai_base_url = "{url}"' in shown
    assert main([*enable, "--listen", ports[1]]) == 0
    assert tomllib.loads(config.read_text())["openai_base_url"] == url.replace(*ports)
    assert main(["proxy", "disable", "--yes"]) == 0
    assert config.read_bytes() == before


@pytest.mark.parametrize(
    ("config", "login", "words"),
    [
        ('model_provider = "azure"\n', "{}", "model_provider is 'azure'"),
        ('openai_base_url = "https://gateway.example/v1"\n', "{}", "gateway.example"),
        ("", '{"tokens": {"access_token": "a"}, "OPENAI_API_KEY": null}', "login of ChatGPT"),
    ],
)
def test_a_codex_that_asks_elsewhere_is_left_as_it_is_and_that_is_told(
    config: str, login: str, words: str, home: Path, enable: list[str], capsys: pytest.CaptureFixture[str]
):
    (home / ".codex").mkdir()
    (home / ".codex" / "config.toml").write_text(config)
    (home / ".codex" / "auth.json").write_text(login)
    assert main(enable) == 0
    told = capsys.readouterr().err
    assert words in told
    assert "Codex goes on without the proxy" in told
    assert (home / ".codex" / "config.toml").read_text() == config

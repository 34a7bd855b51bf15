"""The command: a client run behind a proxy, its end, and what is told where something is missing."""

import fcntl
import json
import os
import pty
import shlex
import signal
import socket
import subprocess
import sys
import termios
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from summarizing_context.cli import main
from summarizing_context.contrib.serving import bound_socket

PROGRAM = [sys.executable, "-m", "summarizing_context", "proxy"]


def running(folder: Path, code: str) -> list[str]:
    """The command that runs a program of Python behind a proxy."""
    store = ["--store", str(folder / "run.db"), "--summarizer", "client"]
    return [*PROGRAM, "run", *store, "--", sys.executable, "-c", code]


def test_what_ends_the_proxy_of_a_command_ends_the_command_too(tmp_path):
    sleeping = "import os, time; print(os.getpid(), flush=True); time.sleep(600)"
    with subprocess.Popen(running(tmp_path, sleeping), stdout=subprocess.PIPE, text=True) as process:
        pid = int(process.stdout.readline())
        process.send_signal(signal.SIGTERM)
        assert process.wait(60) == 128 + signal.SIGTERM
    with pytest.raises(ProcessLookupError):
        os.kill(pid, 0)


COUNTING = """
import json, os, signal, sys, time, urllib.request
told = []
signal.signal(signal.SIGINT, lambda *_: told.append(1))
ask = urllib.request.build_opener(urllib.request.ProxyHandler({})).open
assert os.environ["OPENAI_BASE_URL"].endswith("/v1")
print(json.load(ask(os.environ["ANTHROPIC_BASE_URL"] + "/_status"))["summarizer"], flush=True)
while not told:
    time.sleep(0.05)
time.sleep(1)  # another would be here by now
sys.exit(10 + len(told))
"""


@pytest.mark.parametrize("alone", [False, True])
def test_an_interrupt_at_a_terminal_reaches_the_command_once(tmp_path, alone):
    """The command runs behind a proxy of its own, and its exit status is that of the whole."""
    keyboard, terminal = pty.openpty()
    own = {} if alone else {"stdin": terminal, "preexec_fn": lambda: fcntl.ioctl(0, termios.TIOCSCTTY, 0)}
    own |= {"stdout": subprocess.PIPE, "text": True, "start_new_session": True}
    with subprocess.Popen(running(tmp_path, COUNTING), **own) as process:
        try:
            assert process.stdout.readline() == "client\n"
            process.send_signal(signal.SIGINT) if alone else os.write(keyboard, b"\x03")
            assert process.wait(60) == 11
        finally:
            process.terminate()
            os.close(keyboard)
            os.close(terminal)


INTERRUPTED = """
import asyncio, os, signal, sys
from summarizing_context.cli import main
made, turns = asyncio.create_subprocess_exec, int(sys.argv[1])
async def interrupted(*command, **options):
    process = await made(*command, **options)
    os.kill(os.getpid(), signal.SIGINT)
    for _ in range(turns):  # turns of the event loop before the proxy knows the command
        await asyncio.sleep(0)
    return process
asyncio.create_subprocess_exec = interrupted
sys.exit(main(sys.argv[2:]))
"""


@pytest.mark.parametrize("turns", [0, 2])
def test_an_interrupt_while_the_command_starts_is_not_lost(tmp_path, turns):
    options = ["proxy", "run", "--store", str(tmp_path / "run.db"), "--", "sleep", "30"]
    with subprocess.Popen([sys.executable, "-c", INTERRUPTED, str(turns), *options]) as process:
        try:
            assert process.wait(25) == 128 + signal.SIGINT
        finally:
            process.terminate()


@pytest.mark.skipif(not socket.has_dualstack_ipv6(), reason="needs IPv6")
def test_all_addresses_of_ipv6_hold_those_of_ipv4():
    with bound_socket("::", 0) as listening:
        socket.create_connection(("127.0.0.1", listening.getsockname()[1]), 5).close()


def test_a_proxy_serves_tells_its_status_and_ends(tmp_path, capsys):
    command = [*PROGRAM, "--store", str(tmp_path / "run.db"), "--listen", "0"]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as process:
        port = str(urlsplit(process.stderr.readline().split(": ")[0]).port)
        try:
            for _ in range(100):
                if main(["proxy", "status", "--listen", port, "--json", "-"]) == 0:
                    break
            assert json.loads(capsys.readouterr().out)["requests"] == 0
            assert main(["proxy", "status", "--listen", port]) == 0
        finally:
            process.send_signal(signal.SIGTERM)
            process.wait(20)
    assert "0 requests" in capsys.readouterr().out


WRONG = {
    "": "--store",
    "--store x.db --listen 0.0.0.0:0": "--token",
    "--store x.db --listen 0.0.0.0:0 --token ''": "token",
    "--store x.db --listen 0.0.0.0:0 --token short": "token",
    "--store x.db --listen 0.0.0.0:0 --token 'sixteen signs !!'": "token",
    "--store x.db --listen nowhere:1": "IP address",
    "--store x.db --listen 0 --anthropic nothing": "--anthropic",
    "--store x.db --listen 0 --openai ftp://host": "--openai",
    "--store x.db --listen 0 --openai https://user:word@host": "--openai",
    "--store x.db --listen 0 --openai https://host?q=1": "--openai",
    "--store x.db --listen 0 --budget many": "--budget",
    "run --store x.db -- no-such-command": "no-such-command",
}


@pytest.mark.parametrize("arguments", WRONG)
def test_what_is_wrong_is_told(arguments, capsys):
    assert main(["proxy", *shlex.split(arguments)]) == 2
    told = capsys.readouterr().err
    assert WRONG[arguments] in told
    assert told.startswith("error: ")  # and no address at which nobody listens

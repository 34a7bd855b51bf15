"""The command line, ready to run."""

import pytest
from cli.commands import Ran, Runner

from summarizing_context.cli import main


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Runner:
    """Runs commands in this process, without a terminal, 100 columns wide."""
    monkeypatch.setenv("COLUMNS", "100")
    monkeypatch.delenv("FORCE_COLOR", raising=False)
    return lambda *arguments: Ran(main([str(argument) for argument in arguments]), *capsys.readouterr())

"""`summarizing-context completion`: a script that lets a shell complete commands and options."""

from __future__ import annotations

from typing import Annotated

import typer

from summarizing_context.cli.output import PROGRAM, InputError, Status, help_text

_SHELLS = ("bash", "zsh", "fish")
_EXAMPLES = """[bold]Examples[/bold]

eval "$(summarizing-context completion bash)"    [dim]# in ~/.bashrc[/dim]

eval "$(summarizing-context completion zsh)"    [dim]# in ~/.zshrc, behind compinit[/dim]

summarizing-context completion fish > ~/.config/fish/completions/summarizing-context.fish
"""


def register(app: typer.Typer) -> None:
    """Add the command to the app, and let it answer what the script asks."""
    from typer._completion_classes import completion_init  # what typer's own options call

    completion_init()
    app.command("completion", help=help_text(completion), epilog=_EXAMPLES)(completion)


def completion(shell: Annotated[str, typer.Argument(metavar="SHELL", help="bash, zsh or fish.")]) -> int:
    """Print a script that makes a shell complete commands and options."""
    if shell not in _SHELLS:
        raise InputError(f"there is no completion for {shell!r:.40}; there is for {', '.join(_SHELLS)}")
    typer.echo(_script(shell))
    return Status.OK


def _script(shell: str) -> str:
    variable = f"_{PROGRAM}_COMPLETE".replace("-", "_").upper()
    if shell == "bash":
        return _BASH % {"variable": variable, "program": PROGRAM}
    if shell == "zsh":
        return _ZSH % {"variable": variable, "program": PROGRAM}
    return _FISH % {"variable": variable, "program": PROGRAM}


_BASH = """_summarizing_context() {
    local IFS=$'\\n'
    COMPREPLY=($(COMP_WORDS="${COMP_WORDS[*]}" COMP_CWORD=$COMP_CWORD %(variable)s=complete_bash "$1"))
}
complete -o default -F _summarizing_context %(program)s"""
_ZSH = """_summarizing_context() {
    eval "$(_TYPER_COMPLETE_ARGS="${words[1,$CURRENT]}" %(variable)s=complete_zsh %(program)s)"
}
compdef _summarizing_context %(program)s"""
_FISH = """function _summarizing_context
    set -lx _TYPER_COMPLETE_FISH_ACTION $argv[1]
    set -lx _TYPER_COMPLETE_ARGS (commandline -cp)
    %(variable)s=complete_fish %(program)s
end
complete --command %(program)s --no-files --arguments "(_summarizing_context get-args)" \\
    --condition '_summarizing_context is-args'"""

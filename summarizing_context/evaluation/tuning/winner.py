"""Writing what has won: a file of figures, or the next version of each prompt. No file that is there is changed."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from summarizing_context.errors import PromptError
from summarizing_context.evaluation.tuning.outcome import TuneOutcome
from summarizing_context.evaluation.tuning.variants import Variant
from summarizing_context.private_files import make_private_folder, open_private, write_private
from summarizing_context.prompt_library import Prompt, names, write_prompt
from summarizing_context.summarizers.parameter_files import write_parameters
from summarizing_context.summarizers.parameters import SHIPPED

_FIRST = "extractive.toml"


def write_winner(run: TuneOutcome, winner: Variant, folder: Path) -> list[Path]:
    """The files of the winner in a folder of the user's; none where what is shipped has won."""
    make_private_folder(folder)
    written = [_write_next(folder, prompt) for prompt in sorted(winner.prompts, key=lambda prompt: prompt.name)]
    if winner.parameters != SHIPPED:
        held_out, trained = run.at(run.winner).validation, run.at(run.winner).train
        assert held_out is not None
        about = (
            f"Figures of the extractive summarizer, found by tuning on the suite {run.suite} ({run.optimizer}, seed "
            f"{run.seed}).\nQuality {trained.quality.mean:.4f} on the sessions tuned on, "
            f"{held_out.quality.mean:.4f} on those held out.\nUse: Settings(extractive_parameters=<this file>)"
        )
        text = write_parameters(winner.parameters, about=about)
        file = _free(folder, text)
        write_private(file, text)
        written.append(file)
    return written


def _free(folder: Path, text: str) -> Path:
    """The first name that is free, or that holds this very text already."""
    number, file = 1, folder / _FIRST
    while file.exists() and file.read_text(encoding="utf-8") != text:
        number += 1
        file = folder / f"extractive-v{number}.toml"
    return file


def _write_next(folder: Path, prompt: Prompt) -> Path:
    purpose = prompt.name
    for name in names(folder):  # written by an earlier run
        if name.startswith(f"{purpose}/") and _holds(folder / f"{name}.md", write_prompt(_numbered(prompt, name))):
            return folder / f"{name}.md"
    known = [int(name.partition("/v")[2]) for name in (*names(), *names(folder)) if name.startswith(f"{purpose}/")]
    numbered = replace(prompt, version=max(known, default=0) + 1)
    file = folder / purpose / f"v{numbered.version}.md"
    make_private_folder(file.parent)
    try:
        with open_private(file, new=True) as opened:
            opened.write(write_prompt(numbered).encode())
    except FileExistsError as error:
        raise PromptError(f"{file} is there already; prompts are never edited") from error
    return file


def _numbered(prompt: Prompt, name: str) -> Prompt:
    return replace(prompt, version=int(name.partition("/v")[2]))


def _holds(file: Path, text: str) -> bool:
    return file.read_text(encoding="utf-8") == text

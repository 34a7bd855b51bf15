"""What is tried: figures of the extractive summarizer, prompts, settings. Values, and the files they are used from."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import msgspec

from summarizing_context.private_files import make_private_folder, write_private
from summarizing_context.prompt_library import Prompt, write_prompt
from summarizing_context.settings import Settings
from summarizing_context.summarizers.parameter_files import write_parameters
from summarizing_context.summarizers.parameters import SHIPPED, ExtractiveParameters


@dataclass(frozen=True, slots=True, kw_only=True)
class Variant:
    """One candidate. What it does not name is as shipped."""

    name: str
    parameters: ExtractiveParameters = SHIPPED
    prompts: tuple[Prompt, ...] = ()  # one for each purpose that differs from what is shipped
    settings: dict[str, Any] = field(default_factory=dict)

    @property
    def key(self) -> str:
        """Names what the variant does, whatever it is called."""
        prompts = [[prompt.name, prompt.hash] for prompt in self.prompts]
        told = [self.parameters.tables(), prompts, {name: str(self.settings[name]) for name in sorted(self.settings)}]
        return hashlib.sha256(msgspec.json.encode(told, order="deterministic")).hexdigest()[:16]

    def differences(self, other: Variant) -> list[str]:
        """What is otherwise than in another variant, a line for each thing."""
        mine, theirs = self.parameters.tables(), other.parameters.tables()
        lines = [
            f"{table}.{name}: {theirs[table][name]} → {value}"
            for table, figures in mine.items()
            for name, value in figures.items()
            if theirs[table][name] != value
        ]
        before = {prompt.name: prompt for prompt in other.prompts}
        lines += [
            f"prompt {prompt.name}: {prompt.hash[:12]}"
            for prompt in self.prompts
            if prompt.name not in before or before[prompt.name].hash != prompt.hash
        ]
        lines += [f"{name} = {value}" for name, value in self.settings.items() if other.settings.get(name) != value]
        return lines

    def placed(self, settings: Settings, folder: Path) -> Settings:
        """The settings of a session that uses this variant, its files written into `folder`."""
        changed: dict[str, Any] = dict(self.settings)
        make_private_folder(folder)
        if self.parameters != SHIPPED:
            file = folder / f"{self.key}.toml"
            write_private(file, write_parameters(self.parameters, about=f"A variant that was tried: {self.name}."))
            changed["extractive_parameters"] = file
        for prompt in self.prompts:
            place = folder / self.key / prompt.name
            make_private_folder(place)
            write_private(place / f"v{prompt.version}.md", write_prompt(prompt))
            changed["prompts"] = folder / self.key
        return replace(settings, **changed)

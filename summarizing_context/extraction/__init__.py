"""Facts that are read from text without a model: rules, instruction files, tool calls with plans, importance.

Pure, without state, and without the log. Each kind of fact has one module, and its words stand in files beside them.
"""

import tomllib
from importlib.resources import files
from typing import Any

WORDS: dict[str, Any] = tomllib.loads((files(__package__) / "words.toml").read_text("utf-8"))

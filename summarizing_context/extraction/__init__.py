"""Facts that are read from text without a model: rules, tool calls with plans, importance.

Pure. Each kind of fact has one module, and its words stand in the files beside them. Nothing here keeps state or reads
the log.
"""

import tomllib
from importlib.resources import files
from typing import Any

WORDS: dict[str, Any] = tomllib.loads((files(__package__) / "words.toml").read_text("utf-8"))

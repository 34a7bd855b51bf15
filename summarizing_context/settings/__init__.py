"""Settings of a session: values, defaults, sources and validation.

`values` holds `Settings`; `checks`, `rules` and `nested` validate what a program, a file or the environment gives.
Every problem of a source is reported at once, as one `SettingsError`.
"""

from summarizing_context.settings.ledger_rules import LedgerRule
from summarizing_context.settings.values import Settings

__all__ = ["LedgerRule", "Settings"]

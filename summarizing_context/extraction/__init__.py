"""Facts read off text without a model.

`rules` finds the standing rules that a human states; `rule_log` keeps those of one session.
Each kind of fact has one interface, so that a model can take the place of a word list.
"""

from summarizing_context.extraction.rule_log import RuleLog, RuleReader
from summarizing_context.extraction.rules import CueRules, Rule, RuleExtractor

__all__ = ["CueRules", "Rule", "RuleExtractor", "RuleLog", "RuleReader"]

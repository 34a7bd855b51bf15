"""Facts that are read from text without a model: rules, ledger entries, exact values, error lines, importance.

Pure. Each kind of fact has one module. Nothing here keeps state or reads the log.
"""

from summarizing_context.extraction.rules import CueRules, Rule, RuleExtractor

__all__ = ["CueRules", "Rule", "RuleExtractor"]

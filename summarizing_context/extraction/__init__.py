"""Facts that are read from text without a model: rules, plans, exact values, tool calls, importance.

Pure. Each kind of fact has one module. Nothing here keeps state or reads the log.
"""

"""Prompts as something to look at: what is wrong with one, how it differs from another, what it is sent with.

Nothing is imported here. Finding and reading prompt files is `prompt_library`'s work.
"""

"""Settings of a session: values, defaults, sources and validation.

`values` holds `Settings`; `checks` and `rules` validate what a program, a file or the environment gives.
Every problem of a source is reported at once. Nothing is imported here, so that commands start quickly.
"""

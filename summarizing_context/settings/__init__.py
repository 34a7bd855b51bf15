"""Settings of a session: values, defaults, sources and validation.

`values` holds `Settings`; `rules` validates what a program, a file or the environment gives. Every problem of all
sources is reported at once. Nothing is imported here, so that commands start quickly.
"""

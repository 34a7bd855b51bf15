"""Arms: what a strategy, or a baseline, would send at a cut of a session, all at equal tokens.

Nothing is imported here: `views` says what an arm's view is, `strategies` and `baselines` make them, `table` names all.
"""

"""Probes answered by a model: a reader answers from a view alone, literals decide, a judge decides the rest.

Nothing is imported here: `models` asks, `marking` decides, `outcomes` says what came of it.
"""

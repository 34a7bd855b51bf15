"""Answers of real models to questions about real sessions: recorded, judged blind, and replayed offline.

No figure uses a detector of the product.
"""

"""Tests of what makes summaries, and of the limits under which it is called."""

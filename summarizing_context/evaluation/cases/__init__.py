"""Cases: sessions with cuts, and probes that a view at a cut must answer.

Nothing is imported here. `sources` loads cases; `sessions` and `facts` generate them, `datasets` reads others' files.
"""

"""Hosts' own compaction beside this package inside the same runtimes, at equal mean view size.

`python -m evals.hosts_beside` runs it. What counts shares no code with the package, which only the hosts' arms of ours
import.
"""

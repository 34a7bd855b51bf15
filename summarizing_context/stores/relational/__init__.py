"""What stores on relational databases share: logs, checkpoints, memories, and the thread that writes.

Queries have names. Each database brings its own text for each name; see `database.Connection`.
"""

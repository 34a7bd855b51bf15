"""What stores on relational databases share: the methods of a store, logs, checkpoints, memories, search, the writer.

Queries have names. `sql/` holds those that all databases share; each database brings its own text for the others.
"""

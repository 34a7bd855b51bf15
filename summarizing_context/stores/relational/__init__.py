"""What stores on relational databases share: the thread, and the methods of a store on queries with names, in `store`.

`sql/` holds the queries that all databases share; each database brings its own text for the others.
"""

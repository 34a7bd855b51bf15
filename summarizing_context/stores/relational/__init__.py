"""What stores on relational databases share, in `store`; `sql/` has the queries that are the same for all of them."""

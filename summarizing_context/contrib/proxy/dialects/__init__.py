"""The protocols that clients speak, one module each: reading a request's history, and writing a view into it."""

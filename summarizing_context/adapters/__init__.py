"""Other frameworks' contracts, one module or folder each."""

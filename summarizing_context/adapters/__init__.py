"""Other frameworks' contracts, one file each."""

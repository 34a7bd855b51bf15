"""Programs for the checkout alone: they write and check the documentation."""

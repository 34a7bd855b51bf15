"""The laws of the house, judged from outside: nothing here looks into the package."""

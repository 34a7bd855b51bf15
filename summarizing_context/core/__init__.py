"""The pure part: rules over values. No await, clock, random, log; no library but msgspec."""

"""Messages as providers shape them, which no other room knows: validation, reading, counting, rendering. Pure."""

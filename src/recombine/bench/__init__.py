"""How fast we are, measured beside a named peer in the same run."""

"""Speed, measured beside that of another implementation in the same run."""

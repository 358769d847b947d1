"""Studies as library calls: score tables in, typed records out."""

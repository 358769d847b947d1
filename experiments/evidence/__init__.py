"""Studies of stored scores of real models: where each correction helps, and how certainly."""

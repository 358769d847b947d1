"""Calibrators: pairs of pure functions in JAX alone; no Flax, no files."""

"""Calibrators: pairs of pure JAX functions, without Flax and without files."""

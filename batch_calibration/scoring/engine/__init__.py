"""Computes label scores from tokens: shared prefixes, packed sequences, label tries."""

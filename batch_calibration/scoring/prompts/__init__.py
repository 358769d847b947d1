"""Renders rows as the texts that a model reads."""

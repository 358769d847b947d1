"""Draws the figures, each by a function of typed values; only here is matplotlib imported."""

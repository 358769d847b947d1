"""Draws the figures; only here is matplotlib imported."""

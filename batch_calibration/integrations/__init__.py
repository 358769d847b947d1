"""Corrections inside other people's programs, which name them in their files or find them."""

"""Readers of user input: numbers, data frames, missing scores, label names."""

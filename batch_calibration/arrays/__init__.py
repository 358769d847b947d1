"""Readers of what users give: numbers, frames, missing scores, names of labels."""

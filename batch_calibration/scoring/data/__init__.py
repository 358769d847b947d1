"""Reads rows of a task: embedded suite, files, TFDS folders, image folders, task files."""

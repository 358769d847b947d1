"""Rows of a task: from the embedded suite, files, TFDS folders, image folders, task files."""

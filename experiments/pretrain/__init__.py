"""Trains the embedded models: text and captions from the grammar, steps, programs' shared parts."""

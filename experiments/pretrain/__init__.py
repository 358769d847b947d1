"""Trains the embedded models on generated text, images and captions."""

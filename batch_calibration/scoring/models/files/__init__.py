"""Reads checkpoints from disk: configs, weights, tokenizers, chat templates."""

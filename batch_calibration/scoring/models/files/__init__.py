"""Checkpoints on disk: configs, weights, tokenizers, chat templates."""

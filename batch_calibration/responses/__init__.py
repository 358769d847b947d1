"""Reads servers' responses: lists of the most probable tokens, and token scores of prompts."""

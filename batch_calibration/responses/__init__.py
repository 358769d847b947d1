"""Readers of servers' answers: lists of probable tokens, and prompts scored token by token."""

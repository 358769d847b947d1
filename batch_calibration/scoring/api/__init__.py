"""Asks OpenAI-style servers for label scores, with limits, retries and stored answers."""

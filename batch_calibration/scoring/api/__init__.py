"""Asks servers of the OpenAI style for label scores: limits, retries, answers kept on disk."""

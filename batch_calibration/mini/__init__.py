"""The embedded world: a grammar, its suite of tasks, and the tiny checkpoint trained on it."""

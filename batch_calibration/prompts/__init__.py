"""From rows to the texts that a model reads."""

"""From tokens to label scores: shared prefixes, packed sequences, tries of labels."""

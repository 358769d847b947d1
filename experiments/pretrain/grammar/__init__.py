"""The grammar of the embedded suite: texts, and the probability of each label given a text."""

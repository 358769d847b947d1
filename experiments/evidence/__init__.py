"""Evidence on stored scores of real models: which correction helps where, and how surely."""

"""What the author of a stage touches: stages, their context and clients, hooks, retry and failure policy."""

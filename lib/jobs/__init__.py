"""The API for authors of stages: stages, their context and clients, hooks, retry and failure policy."""

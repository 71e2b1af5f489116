"""Ours, the limit and two peers: each module has `install`, `enqueue` and `drain`."""

"""The world of `tests.world`, for whoever watches it."""

from tests.world import log, make_world, world

__all__ = ["log", "make_world", "world"]

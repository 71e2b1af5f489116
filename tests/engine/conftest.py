"""Worlds for the tests of this folder."""

from tests.world import log, make_world, world

__all__ = ["log", "make_world", "world"]

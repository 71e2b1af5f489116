"""Worlds for the tests of this folder."""

from tests.world import make_world

__all__ = ["make_world"]

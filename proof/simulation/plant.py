"""A bug to plant."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

Change = tuple[str, str, str]
"""In the function of this name (none: anywhere) one text becomes another."""


@dataclass(frozen=True, slots=True)
class Plant:
    """A bug: what is taken out, the changes of the schema, and what patches the Python."""

    name: str
    what: str
    changes: tuple[Change, ...] = ()
    patch: Callable[[], Any] | None = None

    @contextmanager
    def planted(self) -> Iterator[None]:
        """Plant what is Python, within the context."""
        if self.patch is None:
            yield
            return
        with self.patch():
            yield

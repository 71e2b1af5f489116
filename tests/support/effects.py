"""A stage whose one effect outside goes as a test says."""

from collections.abc import Callable
from typing import Any

from lib.job import Complete, Outcome


class Effect:
    """A stage with one effect. `then` tells what happens at its tries; the keys it got are kept."""

    def __init__(
        self, *, lookup: Callable[[str], dict[str, Any] | None] | None = None, repeatable: bool = False
    ) -> None:
        self.keys: list[str] = []
        self.asked: list[str] = []
        self.failures: list[BaseException] = []
        self.before: Callable[[Any], None] = lambda context: None
        self.during: Callable[[Any], None] = lambda context: None
        self._lookup = lookup
        self._repeatable = repeatable

    def then(self, *failures: BaseException) -> "Effect":
        self.failures += failures
        return self

    def __call__(self, payload: Any, context: Any) -> Outcome:
        def fn(key: str) -> dict[str, Any]:
            self.keys.append(key)
            self.during(context)
            if self.failures:
                raise self.failures.pop(0)
            return {"try": len(self.keys)}

        def lookup(key: str) -> dict[str, Any] | None:
            self.asked.append(key)
            assert self._lookup is not None
            return self._lookup(key)

        self.before(context)
        asks = lookup if self._lookup else None
        return Complete(context=context.once("do", fn, lookup=asks, repeatable=self._repeatable))

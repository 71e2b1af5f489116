"""What `threading` and `queue` offer, over a machine: the real pool runs on it, and no lock is ever contended for real.

Only what the product uses; anything else is an AttributeError, which a test would meet.
"""

import functools
from collections import deque
from collections.abc import Callable, Iterable, Mapping
from queue import Empty
from types import SimpleNamespace
from typing import Any

from proof.simulation import machine as machines
from proof.simulation.machine import Machine


class Event:
    """As `threading.Event`."""

    def __init__(self, machine: Machine) -> None:
        self._machine, self._set, self._waiters = machine, False, list[machines.Thread]()

    def is_set(self) -> bool:
        """Return whether it is set."""
        return self._set

    def set(self) -> None:
        """Set it, and wake who waits."""
        self._set = True
        self._machine.wake(self._waiters)

    def clear(self) -> None:
        """Unset it."""
        self._set = False

    def wait(self, timeout: float | None = None) -> bool:
        """Wait until it is set. Return whether it is."""
        if not self._set:
            self._machine.block(self._waiters, timeout)
        return self._set


class Semaphore:
    """As `threading.BoundedSemaphore`; with one place it is a lock."""

    def __init__(self, machine: Machine, value: int = 1) -> None:
        self._machine, self._free, self._waiters = machine, value, list[machines.Thread]()

    def acquire(self, blocking: bool = True, timeout: float | None = None) -> bool:
        """Take a place."""
        while self._free == 0:
            if not blocking or not (self._machine.block(self._waiters, timeout) or timeout is None):
                return False
        self._free -= 1
        return True

    def release(self) -> None:
        """Give a place back."""
        self._free += 1
        self._machine.wake(self._waiters, 1)

    def __enter__(self) -> bool:
        return self.acquire()

    def __exit__(self, *_: object) -> None:
        self.release()


class Thread:
    """As `threading.Thread`: a thread of the process that starts it."""

    def __init__(
        self,
        machine: Machine,
        target: Callable[..., object],
        args: Iterable[Any] = (),
        kwargs: Mapping[str, Any] | None = None,
        name: str = "thread",
        daemon: bool = False,
    ) -> None:
        self._machine, self._name = machine, name
        self._act: Callable[[], object] = functools.partial(target, *args, **(kwargs or {}))
        self._ended = Event(machine)

    def start(self) -> None:
        """Start it."""
        process = self._machine.thread().process

        def run() -> None:
            try:
                self._act()
            finally:
                self._ended.set()

        self._machine.spawn(process, run, name=f"{process.name}/{next(process.threads)} {self._name}")

    def join(self, timeout: float | None = None) -> None:
        """Wait for its end."""
        self._ended.wait(timeout)

    def is_alive(self) -> bool:
        """Return whether it has not ended."""
        return not self._ended.is_set()


class SimpleQueue:
    """As `queue.SimpleQueue`."""

    def __init__(self, machine: Machine) -> None:
        self._machine, self._items, self._waiters = machine, deque[Any](), list[machines.Thread]()

    def put(self, item: Any) -> None:
        """Add an item."""
        self._items.append(item)
        self._machine.wake(self._waiters, 1)

    def get(self, block: bool = True, timeout: float | None = None) -> Any:
        """Return the first item. Raises Empty if there is none in time."""
        until = None if timeout is None else self._machine.now + timeout
        while not self._items:
            left = None if until is None else until - self._machine.now
            if not block or (left is not None and left <= 0):
                raise Empty
            self._machine.block(self._waiters, left)
        return self._items.popleft()

    def empty(self) -> bool:
        """Return whether there is no item."""
        return not self._items


def threading_of(machine: Machine) -> SimpleNamespace:
    """Return what stands for the module `threading`."""
    return SimpleNamespace(
        Event=lambda: Event(machine),
        Lock=lambda: Semaphore(machine),
        BoundedSemaphore=lambda value=1: Semaphore(machine, value),
        Thread=lambda **arguments: Thread(machine, **arguments),
    )


def queue_of(machine: Machine) -> SimpleNamespace:
    """Return what stands for the module `queue`. Subscribed to, as annotations do, it is itself."""
    return SimpleNamespace(SimpleQueue=_Queues(machine), Empty=Empty)


class _Queues:
    def __init__(self, machine: Machine) -> None:
        self._machine = machine

    def __call__(self) -> SimpleQueue:
        return SimpleQueue(self._machine)

    def __class_getitem__(cls, _: object) -> type:
        return cls

    def __getitem__(self, _: object) -> "_Queues":
        return self

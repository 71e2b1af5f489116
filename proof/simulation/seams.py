"""The seams: what the product's modules take from the machine, replaced by that of a simulation while it runs.

Every module of `lib` that has imported `time`, `random`, `secrets`, `uuid`, `threading`, `queue`, `os` or `atexit` gets
ours under the same name. Nothing in `lib` knows of it.
"""

import atexit
import importlib
import os
import pkgutil
import queue
import random
import secrets
import socket
import threading
import time
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from types import ModuleType, SimpleNamespace
from typing import Any

import lib
from proof.simulation.machine import EPOCH, Machine
from proof.simulation.threads import queue_of, threading_of

# Commands and pages that no simulation calls, and what waits for real sockets: the wire and the vendors are ours.
_LEFT_OUT = (
    *("lib.cli.", "lib.web.", "lib.api_client."),
    *("lib.store.connections.", "lib.store.deadline.", "lib.store.network.", "lib.safe_http.network."),
)


@cache
def modules() -> list[ModuleType]:
    """Return the modules of the product, all of them imported: none may be imported in the middle of a seed."""
    names = [found.name for found in pkgutil.walk_packages(lib.__path__, "lib.")]
    return [importlib.import_module(name) for name in names if not f"{name}.".startswith(_LEFT_OUT)]


@contextmanager
def replaced(machine: Machine) -> Iterator[None]:
    """Replace the seams within the context."""
    ours = _replacements(machine)
    for module, name, value in _seams():
        setattr(module, name, ours[value])
    try:
        yield
    finally:
        for module, name, value in _seams():
            setattr(module, name, value)


@cache
def _seams() -> list[tuple[ModuleType, str, Any]]:
    """Return where the product has taken something from the machine: module, name, and what it is."""
    return [
        (module, name, value)
        for module in modules()
        for name, value in vars(module).items()
        if isinstance(value, ModuleType | type) and value in _TAKEN
    ]


_TAKEN = (time, uuid, random, random.SystemRandom, secrets, threading, queue, socket, os, atexit)


def _replacements(machine: Machine) -> dict[Any, Any]:
    def draw(bits: int) -> int:
        return machine.thread().process.rng.getrandbits(bits)

    clock = SimpleNamespace(
        monotonic=lambda: machine.now,
        perf_counter=lambda: machine.now,
        time=lambda: EPOCH.timestamp() + machine.now + machine.thread().process.skew,
        sleep=machine.pause,
        strftime=time.strftime,
        localtime=time.localtime,
    )
    made = SimpleNamespace(uuid4=lambda: uuid.UUID(int=draw(128), version=4), UUID=uuid.UUID)
    drawn = SimpleNamespace(Random=lambda: random.Random(draw(64)), SystemRandom=lambda: random.Random(draw(64)))
    host = SimpleNamespace(gethostname=lambda: "simulated")
    process = _Os(machine)
    return {
        time: clock,
        uuid: made,
        random: drawn,
        random.SystemRandom: drawn.SystemRandom,
        secrets: _Secrets(machine),
        threading: threading_of(machine),
        queue: queue_of(machine),
        socket: host,
        os: process,
        atexit: SimpleNamespace(register=lambda act: act),
    }


class _Secrets:
    """The module `secrets`, with the randomness of a simulation."""

    def __init__(self, machine: Machine) -> None:
        self._machine = machine

    def token_bytes(self, size: int) -> bytes:
        """Return what the seed draws."""
        return self._machine.thread().process.rng.randbytes(size)


class _Os:
    """The module `os`, with the process ids and the randomness of a simulation."""

    def __init__(self, machine: Machine) -> None:
        self._machine = machine

    def getpid(self) -> int:
        """Return the id of the process that runs."""
        return self._machine.thread().process.pid

    def urandom(self, size: int) -> bytes:
        """Return what the seed draws."""
        return self._machine.thread().process.rng.randbytes(size)

    def __getattr__(self, name: str) -> Any:
        return getattr(os, name)

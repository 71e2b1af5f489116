"""Secrets of development: created once and stored with the data they protect."""

import base64
import fcntl
import json
import os
import secrets
from collections.abc import Callable, Mapping
from pathlib import Path

from lib.errors import Misconfigured


def _fernet_key() -> str:
    """Return a key like `Fernet.generate_key()`."""
    return base64.urlsafe_b64encode(os.urandom(32)).decode()


GENERATORS: Mapping[str, Callable[[], str]] = {
    "CRON_SECRET": secrets.token_urlsafe,
    "GIFTCARD_ADMIN_TOKEN": secrets.token_urlsafe,
    "GIFTCARD_API_TOKEN": secrets.token_urlsafe,
    "GIFTCARD_METRICS_TOKEN": secrets.token_urlsafe,
    "GIFTCARD_ENCRYPTION_KEYS": _fernet_key,
    "GIFTCARD_LOOKUP_KEY": secrets.token_urlsafe,
}


def secrets_file(path: Path) -> dict[str, str]:
    """Return the secrets of the file by environment variable, creating missing ones in it.

    Only the owner can read the file. Raise Misconfigured if its content is invalid.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
    with os.fdopen(descriptor, "r+", encoding="utf-8") as file:
        fcntl.flock(file, fcntl.LOCK_EX)  # two programs started at once must not create two sets
        os.fchmod(descriptor, 0o600)
        known = _parse(file.read(), path)
        values = {name: known.get(name) or generate() for name, generate in GENERATORS.items()}
        if values != known:
            file.seek(0)
            file.write(json.dumps(known | values, indent=2) + "\n")
            file.truncate()
    return values


def _parse(text: str, path: Path) -> dict[str, str]:
    try:
        known = json.loads(text or "{}")
    except ValueError:
        known = None
    if not isinstance(known, dict) or not all(isinstance(value, str) for value in known.values()):
        raise Misconfigured(f"{path} is not a JSON object of secrets: fix it, or delete it for new ones")
    return known

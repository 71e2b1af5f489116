"""The one rule of transport: secrets travel encrypted, except in development and within this machine."""

from collections.abc import Mapping
from ipaddress import ip_address

from lib.config.cleaning import bare

_ENVIRONMENTS = ("production", "preview", "development", "test")
# Only these may send in clear.
_OPEN = ("development", "test")


def environment_of(own: str | None, vercel: str | None) -> str:
    """Return the environment: `GIFTCARD_ENV`, else `VERCEL_ENV`, else production, the safest choice."""
    if own:
        return own
    return vercel if vercel in ("production", "preview", "development") else "production"


def environment_in(environ: Mapping[str, str]) -> str:
    """Return the environment that these variables name; production if what they name is none."""
    own, vercel = (bare(environ.get(name, "")) for name in ("GIFTCARD_ENV", "VERCEL_ENV"))
    found = environment_of(own.lower(), vercel)
    return found if found in _ENVIRONMENTS else "production"


def must_encrypt(host: str, environment: str) -> bool:
    """Return whether what is sent to a host must be encrypted."""
    return environment not in _OPEN and not is_loopback(host)


def is_loopback(host: str) -> bool:
    """Return whether a host is this machine: a loopback address, localhost, or the folder of a Unix socket.

    A name that resolves to such an address does not count: tomorrow it may resolve to another.
    """
    if host.startswith(("/", "@")):
        return True
    name = host.lower()
    if name == "localhost" or name.endswith(".localhost"):
        return True
    try:
        address = ip_address(host)
    except ValueError:
        return False
    return (getattr(address, "ipv4_mapped", None) or address).is_loopback

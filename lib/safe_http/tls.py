"""TLS for outgoing calls."""

import functools
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import ssl


@functools.cache
def tls() -> "ssl.SSLContext":
    """Return the process's one context: loading the certificates costs more than most requests."""
    import ssl

    import certifi

    return ssl.create_default_context(cafile=certifi.where())

"""How we know who answers over https."""

import functools
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import ssl


@functools.cache
def tls() -> "ssl.SSLContext":
    """One context a process: reading the certificates costs more than most requests."""
    import ssl

    import certifi

    return ssl.create_default_context(cafile=certifi.where())

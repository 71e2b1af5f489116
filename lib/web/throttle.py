"""Wrong tokens and signatures: counted by address in the database, and beyond a limit answered with 429."""

import hashlib
from ipaddress import IPv6Address, IPv6Network, ip_address
from typing import Any

from flask import current_app, request

from lib.telemetry import events
from lib.web.problems import Problem
from lib.web.services import services

# The rows of giftcard_denied_requests, which addresses share by hash: none is stored.
_BUCKETS = 4096


def bucket() -> int:
    """Return the hash of the caller's address. Addresses of one IPv6 network, which one caller has, have the same."""
    address = _address()
    try:
        parsed = ip_address(address)
        if isinstance(parsed, IPv6Address):
            mapped = parsed.ipv4_mapped
            address = str(mapped or IPv6Network((parsed, 64), strict=False))
    except ValueError:
        pass  # not an address: counted as it is
    return int.from_bytes(hashlib.sha256(address.encode()).digest()[:4]) % _BUCKETS


def denied(counted: dict[str, Any], problem: Problem) -> Problem:
    """Return the problem of a request that the database has counted: `problem`, or 429 beyond the limit.

    The first ones are logged. Those beyond the limit are only counted: a caller could fill the log with them.
    """
    if counted["retry_after"] is None:
        rule = request.url_rule
        events.emit("request_denied", reason=counted["reason"], path=rule.rule if rule else None)
        return problem
    return Problem(
        429,
        "too many wrong tokens or signatures",
        detail="wait before you send another one: a right one is accepted at once",
        retry_after=int(counted["retry_after"]),
    )


def _address() -> str:
    """Return the caller's address. Vercel's proxy sets the header itself; elsewhere a caller could choose it."""
    behind_vercel = services(current_app).settings.vercel_env in ("production", "preview")
    return (behind_vercel and request.headers.get("X-Real-Ip")) or request.remote_addr or ""

"""Where in the network a call may lead: to public addresses, and to those that the operators allow."""

from collections.abc import Sequence
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address, ip_network

Network = IPv4Network | IPv6Network

# What `is_global` lets through, in some or in all versions of Python, and what nobody reaches over the Internet.
_NOT_PUBLIC: tuple[Network, ...] = tuple(
    ip_network(network)
    for network in (
        "168.63.129.16/32",  # Azure's platform, seen from inside
        "192.0.0.0/24",  # protocol assignments, Oracle's metadata among them
        "192.88.99.0/24",  # 6to4 relays
        "2001::/23",  # protocol assignments, Teredo among them: it wraps any IPv4 address
        "2002::/16",  # 6to4: it wraps any IPv4 address
        "3fff::/20",  # documentation
    )
)
# Of IPv6 only this is given out (RFC 4291, 2.4); outside it lie ::a.b.c.d, site-local and segment-routing addresses.
_GIVEN_OUT = IPv6Network("2000::/3")
# NAT64 (RFC 6052): how hosts without IPv4 reach it, so it counts as the address that it wraps.
_NAT64 = IPv6Network("64:ff9b::/96")


def may_be_called(address: str, *, allowed: Sequence[Network]) -> bool:
    """Whether this IP address is public, or within a network that is allowed. What is no address may not."""
    try:
        found = _unwrapped(ip_address(address))
    except ValueError:
        return False
    if any(found in network for network in allowed):
        return True
    if not found.is_global or found.is_multicast or any(found in network for network in _NOT_PUBLIC):
        return False
    return isinstance(found, IPv4Address) or found in _GIVEN_OUT


def _unwrapped(address: IPv4Address | IPv6Address) -> IPv4Address | IPv6Address:
    """The IPv4 address that the network makes of it, where it makes one."""
    if isinstance(address, IPv4Address):
        return address
    if address in _NAT64:
        return IPv4Address(int(address) & 0xFFFF_FFFF)
    return address.ipv4_mapped or address

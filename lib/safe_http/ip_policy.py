"""Which IP addresses may be called: public ones, and those that the operators allow."""

from collections.abc import Sequence
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address, ip_network

Network = IPv4Network | IPv6Network

# Not reachable over the Internet, but `is_global` in some or all versions of Python.
_NOT_PUBLIC: tuple[Network, ...] = tuple(
    ip_network(network)
    for network in (
        "168.63.129.16/32",  # Azure's platform, from inside its network
        "192.0.0.0/24",  # protocol assignments, including Oracle's metadata
        "192.88.99.0/24",  # 6to4 relays
        "2001::/23",  # protocol assignments, including Teredo, which wraps any IPv4 address
        "2002::/16",  # 6to4: it wraps any IPv4 address
        "3fff::/20",  # documentation
    )
)
# The only IPv6 range that is assigned (RFC 4291, 2.4): not ::a.b.c.d, site-local and segment-routing addresses.
_ASSIGNED = IPv6Network("2000::/3")
# NAT64 (RFC 6052): hosts without IPv4 reach IPv4 through it, so the wrapped address counts.
_NAT64 = IPv6Network("64:ff9b::/96")


def is_allowed(address: str, *, allowed: Sequence[Network]) -> bool:
    """Return whether `address` is a public IP address, or one within the allowed networks."""
    try:
        ip = _unwrapped(ip_address(address))
    except ValueError:
        return False
    if any(ip in network for network in allowed):
        return True
    if not ip.is_global or ip.is_multicast or any(ip in network for network in _NOT_PUBLIC):
        return False
    return isinstance(ip, IPv4Address) or ip in _ASSIGNED


def _unwrapped(address: IPv4Address | IPv6Address) -> IPv4Address | IPv6Address:
    """Return the IPv4 address that an IPv6 address stands for, or the address itself."""
    if isinstance(address, IPv4Address):
        return address
    if address in _NAT64:
        return IPv4Address(int(address) & 0xFFFF_FFFF)
    return address.ipv4_mapped or address

"""Checks of the services that we call or that call us, and of the networks that jobs may call."""

from collections.abc import Sequence
from ipaddress import IPv4Network, IPv6Network, collapse_addresses, ip_network

from lib.monitoring.doctor.finding import Deployment, FactMissing, Finding, green, red, yellow
from lib.safe_http.ip_policy import Network

# The networks that are not public: those of private machines, of this machine, and of the platform's metadata.
_INNER: tuple[tuple[Network, ...], ...] = (
    tuple(map(IPv4Network, ("10.0.0.0/8", "127.0.0.0/8", "169.254.0.0/16", "172.16.0.0/12", "192.168.0.0/16"))),
    tuple(map(IPv6Network, ("::1/128", "fc00::/7", "fe80::/10"))),
)

# As many unusable events are counted.
_MOST_EVENTS = 1000


def vendors(deployment: Deployment) -> Finding:
    """Check that production takes money, or is meant not to. URLs in clear are refused at start."""
    settings = deployment.settings
    is_ledger = settings.giftcard_payment_provider == "ledger"
    if settings.environment == "production" and is_ledger and not settings.giftcard_ledger_is_meant:
        return red(
            "customers do not pay: GIFTCARD_PAYMENT_PROVIDER is ledger, which only records payments",
            fix="set a provider (docs/vendors.md), or GIFTCARD_LEDGER_IS_MEANT=1 if no money is meant to move",
        )
    return green(f"payments: {settings.giftcard_payment_provider}, cards: {settings.giftcard_card_provider}")


def square(deployment: Deployment) -> Finding:
    """Check that Square is configured whole, and that its events of the last day could be used.

    Without any of its settings there is no such line.
    """
    settings = deployment.settings
    effects = {
        "square_webhook_signature_key": "events from Square are rejected",
        "square_webhook_url": "events from Square are rejected",
        "square_merchant_id": "events of every merchant count",
        "square_location_id": "payments at every location count",
    }
    missing = [name for name in effects if not getattr(settings, name)]
    if len(missing) == len(effects) and settings.giftcard_payment_provider != "square":
        raise FactMissing("square")
    if missing:
        return red(
            "; ".join(f"{name.upper()} is not set: {effects[name]}" for name in missing),
            fix="set each, as docs/webhooks.md describes, and deploy again",
        )
    unusable = deployment.facts.get("unusable_events", {}).get("square")
    if not unusable:
        return green("Square is configured")
    number = unusable["events"]
    events = "1 event" if number == 1 else f"{'at least ' if number >= _MOST_EVENTS else ''}{number} events"
    return yellow(
        f"{events} of Square within the last day could not be used, the last: {unusable['type']}, {unusable['why']}",
        fix="look whether the API version of the subscription in Square has changed: see docs/doctor.md#square",
    )


def networks(deployment: Deployment) -> Finding:
    """Check that GIFTCARD_ALLOWED_NETWORKS leaves some network out. Without that setting there is no such line."""
    allowed = deployment.settings.giftcard_allowed_networks
    if not allowed:
        raise FactMissing("giftcard_allowed_networks")
    if any(_covers(allowed, inner) for inner in _INNER):
        return red(
            "GIFTCARD_ALLOWED_NETWORKS covers everything: jobs and webhooks can call every machine of this network",
            fix="name only the networks that jobs have to call, and deploy again",
        )
    return green(f"jobs may call {len(allowed)} networks besides public addresses")


def _covers(allowed: Sequence[Network], inner: Sequence[Network]) -> bool:
    """Return whether every network of a family is allowed: public addresses are in any case."""
    version = inner[0].version
    of_family = [ip_network(network) for network in allowed if network.version == version]
    merged = list(collapse_addresses(of_family))  # type: ignore[type-var]
    return all(any(network.subnet_of(wide) for wide in merged) for network in inner)  # type: ignore[arg-type]

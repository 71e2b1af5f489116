"""Notifications: webhooks to a shop, one of which is refused for good, and alerts to operators."""

from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from textwrap import shorten

from demo.receivers import BOOKKEEPER, SHOP, Message
from demo.results import Outcome
from demo.snapshot import DeadLetter

_ALERT = "circuit:email"
_MAX_ALERT_LENGTH = 90  # characters: one line


def sections(outcome: Outcome) -> Iterator[tuple[str, list[str]]]:
    """Yield the sections of the summary: title and lines."""
    delivered = _delivered(outcome)
    kinds = Counter(message.type for message in delivered.values())
    counts = ", ".join(f"{number} {kind}" for kind, number in kinds.most_common())
    yield (
        "webhooks",
        [f"{len(delivered)} delivered, all with valid signatures: {counts}", *_redelivered(outcome, delivered)],
    )
    yield (
        "dead webhook",
        [f"{letter.order_id}: {letter.last_error}" for letter in _dead_webhooks(outcome)]
        + [f"{url} is disabled: {reason}" for url, reason in outcome.deliveries.disabled.items()],
    )
    yield "alerts", [shorten(alert["text"], _MAX_ALERT_LENGTH, placeholder=" …") for alert in outcome.deliveries.alerts]


def _redelivered(outcome: Outcome, delivered: Mapping[str, Message]) -> Iterator[str]:
    times = Counter(message.id for message in outcome.deliveries.messages if message.path == SHOP)
    yield from (
        f"{event} was sent {times[event]} times until it was accepted" for event in delivered if times[event] > 1
    )


def _webhooks(outcome: Outcome) -> Iterator[str]:
    notified: dict[str, Counter[str]] = {"giftcard.issued": Counter(), "giftcard.failed": Counter()}
    for message in _delivered(outcome).values():
        if message.type in notified:
            notified[message.type][message.data["correlation_id"]] += 1
    issued = Counter({order.id: order.cards for order in outcome.orders if order.cards})
    yield from (f"webhook without a card: {order}" for order in notified["giftcard.issued"] - issued)
    yield from (f"no webhook for the card: {order}" for order in issued - notified["giftcard.issued"])
    orders = {order.id for order in outcome.orders}
    failed = {letter.order_id for letter in outcome.letters if letter.stage != "webhook"} & orders
    yield from (f"no webhook for the failure: {order}" for order in failed - set(notified["giftcard.failed"]))
    yield from outcome.deliveries.forged


def _busy(outcome: Outcome) -> Iterator[str]:
    refused = {message.id for message in outcome.deliveries.messages if message.status == 503}
    if not refused:
        yield "all were accepted at once"
    yield from (f"{event} was not sent again" for event in refused - set(_delivered(outcome)))


def _gone(outcome: Outcome) -> Iterator[str]:
    statuses = [message.status for message in outcome.deliveries.messages if message.path == BOOKKEEPER]
    dead = _dead_webhooks(outcome)
    if statuses != [410] or len(dead) != 1 or dead[0].revives_in is not None:
        yield f"responses: {statuses}, dead webhooks: {[letter.job_id for letter in dead]}"
    off = [url for url in outcome.deliveries.disabled if url.endswith(BOOKKEEPER)]
    if len(off) != 1 or len(outcome.deliveries.disabled) != 1:
        yield f"disabled endpoints: {', '.join(outcome.deliveries.disabled) or 'none'}"


def _alerts(outcome: Outcome) -> Iterator[str]:
    kinds = [alert["kind"] for alert in outcome.deliveries.alerts if alert["condition"] == _ALERT]
    if kinds != ["raised", "resolved"]:
        yield f"received: {', '.join(kinds) or 'nothing'}"


CHECKS: Mapping[str, Callable[[Outcome], Iterator[str]]] = {
    "the shop got one signed webhook per card, and one per failure": _webhooks,
    "a webhook that the shop was too busy to accept was sent again, with the same id": _busy,
    "one webhook is dead: an endpoint that responds 410 is called once, and disabled": _gone,
    "operators got one alert when the circuit of email opened, and one when it closed": _alerts,
}


def _delivered(outcome: Outcome) -> dict[str, Message]:
    """Return the webhooks that the shop accepted, by event id."""
    return {
        message.id: message for message in outcome.deliveries.messages if message.path == SHOP and message.status == 204
    }


def _dead_webhooks(outcome: Outcome) -> list[DeadLetter]:
    return [letter for letter in outcome.letters if letter.stage == "webhook" and letter.status == "error"]

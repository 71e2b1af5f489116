"""Who was told: a shop by webhooks, operators by alerts; and one webhook that nobody wants."""

from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from textwrap import shorten

from demo.receivers import BOOKKEEPER, SHOP, Message
from demo.results import Outcome
from demo.snapshot import Letter

_ALERT = "circuit:email"
_LONGEST_ALERT = 90  # characters: one line


def chapters(outcome: Outcome) -> Iterator[tuple[str, list[str]]]:
    """What is told of it in the end."""
    delivered = _delivered(outcome)
    kinds = Counter(message.type for message in delivered.values())
    words = ", ".join(f"{number} {kind}" for kind, number in kinds.most_common())
    yield "webhooks", [f"{len(delivered)} delivered, each with a good signature: {words}", *_again(outcome, delivered)]
    yield (
        "dead webhook",
        [f"{letter.order_id}: {letter.last_error}" for letter in _dead_webhooks(outcome)]
        + [f"{url} is off: {why}" for url, why in outcome.told.off.items()],
    )
    yield "alerts", [shorten(alert["text"], _LONGEST_ALERT, placeholder=" …") for alert in outcome.told.alerts]


def _again(outcome: Outcome, delivered: Mapping[str, Message]) -> Iterator[str]:
    times = Counter(message.id for message in outcome.told.messages if message.path == SHOP)
    yield from (f"{event} came {times[event]} times, until it was taken" for event in delivered if times[event] > 1)


def _webhooks(outcome: Outcome) -> Iterator[str]:
    told: dict[str, Counter[str]] = {"giftcard.issued": Counter(), "giftcard.failed": Counter()}
    for message in _delivered(outcome).values():
        if message.type in told:
            told[message.type][message.data["correlation_id"]] += 1
    issued = Counter({order.id: order.cards for order in outcome.orders if order.cards})
    yield from (f"told without a card: {order}" for order in told["giftcard.issued"] - issued)
    yield from (f"not told of a card: {order}" for order in issued - told["giftcard.issued"])
    orders = {order.id for order in outcome.orders}
    failed = {letter.order_id for letter in outcome.letters if letter.stage != "webhook"} & orders
    yield from (f"not told of a failure: {order}" for order in failed - set(told["giftcard.failed"]))
    yield from outcome.told.forged


def _busy(outcome: Outcome) -> Iterator[str]:
    refused = {message.id for message in outcome.told.messages if message.status == 503}
    if not refused:
        yield "all were taken at once"
    yield from (f"{event} did not come again" for event in refused - set(_delivered(outcome)))


def _unwanted(outcome: Outcome) -> Iterator[str]:
    answers = [message.status for message in outcome.told.messages if message.path == BOOKKEEPER]
    dead = _dead_webhooks(outcome)
    if answers != [410] or len(dead) != 1 or dead[0].revives_in is not None:
        yield f"answers: {answers}, dead webhooks: {[letter.job_id for letter in dead]}"
    off = [url for url in outcome.told.off if url.endswith(BOOKKEEPER)]
    if len(off) != 1 or len(outcome.told.off) != 1:
        yield f"endpoints that are off: {', '.join(outcome.told.off) or 'none'}"


def _alerts(outcome: Outcome) -> Iterator[str]:
    kinds = [alert["kind"] for alert in outcome.told.alerts if alert["condition"] == _ALERT]
    if kinds != ["raised", "resolved"]:
        yield f"what came: {', '.join(kinds) or 'nothing'}"


RULES: Mapping[str, Callable[[Outcome], Iterator[str]]] = {
    "the shop was told of each card once, and of each failure, by webhooks that are signed": _webhooks,
    "a webhook that the shop was too busy for came again, under its id": _busy,
    "one webhook is dead: who wants no more (410) is called once, and the endpoint is off": _unwanted,
    "operators had one alert when the circuit of email opened, and one when it was over": _alerts,
}


def _delivered(outcome: Outcome) -> dict[str, Message]:
    """What the shop has taken, by event: one that comes twice counts once."""
    return {message.id: message for message in outcome.told.messages if message.path == SHOP and message.status == 204}


def _dead_webhooks(outcome: Outcome) -> list[Letter]:
    return [letter for letter in outcome.letters if letter.stage == "webhook" and letter.status == "error"]

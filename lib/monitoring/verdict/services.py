"""Services that are down: open circuits, and webhook endpoints that are off."""

from collections.abc import Iterator
from dataclasses import replace

from lib.monitoring.verdict.facts import WEBHOOK, Action, Facts, Json, Trouble, is_one, number, waiting
from lib.monitoring.verdict.wording import at, cause, many, sentence, short, since, times

_CAP = 1000


def circuits(facts: Facts) -> Iterator[Trouble]:
    """Circuits of the services that orders need."""
    found = facts.overview.get("circuits") or ()
    yield from (_circuit(c, facts) for c in found if c["stage"] != WEBHOOK and not _is_idle(c))
    if facts.overview.get("circuits_more"):
        text = "More circuits are open than are listed here."
        yield Trouble(
            "circuit", "error", text, "Each is tried by itself.", Action("See all circuits", "open", "/stages")
        )


def recovering(facts: Facts) -> Iterator[Trouble]:
    """Circuits whose cooldown is over and behind which nothing waits: the next job shows whether the service works."""
    found = facts.overview.get("circuits") or ()
    yield from (replace(_circuit(c, facts), level="warning") for c in found if c["stage"] != WEBHOOK and _is_idle(c))


def _is_idle(circuit: Json) -> bool:
    return circuit.get("state") == "half_open" and not number(circuit, "waiting")


def endpoints(facts: Facts) -> Iterator[Trouble]:
    """Webhook endpoints: those that do not respond, and those that are off because they refused events."""
    found = facts.overview.get("circuits") or ()
    yield from (_circuit(circuit, facts) for circuit in found if circuit["stage"] == WEBHOOK)
    off = facts.overview.get("endpoints_off") or {}
    count, capped = number(off, "count"), bool(off.get("capped"))
    if not count:
        return
    reason = short(off.get("reason"), 80).rstrip(". ") or "no reason given"
    name, when = f"endpoint {off.get('id')}", since(off.get("since"))
    one = is_one(count, capped=capped)
    those = f"{many(count, 'webhook endpoint', capped=capped)} are off, the last of them {name}"
    yield Trouble(
        "endpoints_off",
        "warning",
        f"{f'Webhook {name} is off' if one else those}{when}: {reason}.",
        f"No events are sent there until you turn {'it' if one else 'them'} on again; "
        "those of that time are not sent later.",
        Action("Open the endpoints", "open", "/webhooks"),
    )


def _circuit(circuit: Json, facts: Facts) -> Trouble:
    name, noun = _name(circuit), facts.noun(circuit["stage"])
    failures, held = number(circuit, "failures"), number(circuit, "waiting")
    how_often = f" {times(failures)} in a row" if failures > 1 else ""
    why = cause(circuit["last_error"], 90) if circuit.get("last_error") else "it failed" if how_often else ""
    state = "is down" if circuit.get("state") == "open" else "is tried again after it was down"
    return Trouble(
        "circuit",
        "warning" if circuit["stage"] == WEBHOOK else "error",
        f"{name} {state}{since(circuit.get('since'))}{f': {why}{how_often}' if why else ''}.",
        sentence(f"{waiting(held, noun, capped=held >= _CAP)}; {_probe(circuit, facts, held=held)}"),
        Action("Close the circuit", "reset_circuit", str(circuit["circuit"])),
    )


def _probe(circuit: Json, facts: Facts, *, held: int) -> str:
    """Return which job tries the service again, and when."""
    until = circuit.get("open_until")
    opens = at(until) if until is not None and facts.age(until) < 0 else None
    if not held:
        return "the next one that comes tries it" + (f" from {opens} on" if opens else "")
    subject = "it is" if held == 1 else "one is"
    if facts.stands:
        return f"{subject} tried once ticks start jobs again"
    if (facts.stages.get(circuit["stage"]) or {}).get("paused"):
        return f"{subject} tried once {circuit['stage']} is resumed"
    return f"{subject} tried at {opens}" if opens else f"{subject} tried within a minute"


def _name(circuit: Json) -> str:
    name = str(circuit["circuit"])
    if circuit["stage"] == WEBHOOK:
        return f"Webhook endpoint {short(name.partition(':')[2], 30)}"
    return short(name, 60)

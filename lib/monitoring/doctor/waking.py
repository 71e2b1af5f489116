"""The check of waking: whether ticks are woken between two calls of the clock."""

from lib.monitoring.doctor.finding import Deployment, FactMissing, Finding, green, red, span, yellow

_BY_PG_NET = 'psql "$DATABASE_URL" -f sql/supabase_waking.sql, filled in, or paste that file into the SQL editor'


def waking(deployment: Deployment) -> Finding:
    """Check that waking is configured whole, that the last wake was sent, and that a tick has followed it."""
    facts, mode = deployment.facts["waking"], deployment.settings.giftcard_wake
    if facts is None:  # a role that sees no row: the line `grants` has it
        raise FactMissing("waking")
    if facts["error"]:
        return red(
            f"the last wake could not be sent: {facts['error']}; jobs wait for the clock",
            fix="docs/clocks.md#waking; after a change of the secret's name or the address: " + _BY_PG_NET,
        )
    unsound = _misconfigured(deployment, mode, by_pg_net=facts["pg_net"])
    if unsound is not None:
        return unsound
    if mode == "off":
        return green("off: jobs that come between two ticks wait for the clock, up to a minute")
    if facts["age"] is None:
        return green(f"by {mode}: no tick had to be woken yet")
    if not facts["followed"]:
        return yellow(
            f"no tick followed the last wake, {span(facts['age'])} ago ({facts['lost']} of {facts['sent']} were lost)",
            fix="check that the address of wakes answers: docs/clocks.md#waking",
        )
    if deployment.settings.giftcard_tick_linger:
        return green(f"by {mode}: the last wake was {span(facts['age'])} ago")
    return yellow(
        "GIFTCARD_TICK_LINGER is 0: ticks wait for nothing, so each job wakes one of its own",
        fix="unset GIFTCARD_TICK_LINGER, or set GIFTCARD_WAKE=off",
    )


def _misconfigured(deployment: Deployment, mode: str, *, by_pg_net: bool) -> Finding | None:
    if by_pg_net and mode != "pg_net":
        return yellow(
            f"the database wakes ticks by pg_net, but GIFTCARD_WAKE is {mode}: retries wait for the clock",
            fix="set GIFTCARD_WAKE=pg_net and deploy again, or: select giftcard_stop_waking()",
        )
    if mode == "pg_net" and not by_pg_net:
        return yellow("GIFTCARD_WAKE is pg_net, but the database wakes no tick", fix=_BY_PG_NET)
    if mode == "url" and deployment.settings.public_url is None:
        return yellow("GIFTCARD_WAKE is url, but no address is known: no tick is woken", fix="set GIFTCARD_PUBLIC_URL")
    return None

"""Checks of what jobs need and leave: keys that decrypt the cards, stages that can run, books that match."""

from lib.errors import Failure
from lib.giftcards.cards import Vault, missing_key, vault_of
from lib.jobs.limits import label
from lib.jobs.shown import is_setting
from lib.monitoring.doctor.finding import Deployment, FactMissing, Facts, Finding, Json, green, red, span, yellow

_CALLS = {
    "missing": "does not exist with one argument, a jsonb",
    "denied": "may not be executed by the role of this deployment",
}


def keys(deployment: Deployment) -> Finding:
    """Check that card numbers can be encrypted, and stored ones decrypted."""
    missing = missing_key(deployment.settings)
    if missing:
        return red(
            f"{missing} is not set: no card can be issued or sent",
            fix="set it (see docs/deploying.md#the-settings), keep a copy, deploy again",
        )
    try:
        vault = vault_of(deployment.settings)
    except ValueError as error:
        return red(str(error), fix="set a new value (see docs/deploying.md#the-settings) and deploy again")
    in_use = {card["key_id"] for card in deployment.facts.get("cards", ())}
    in_use |= set(deployment.facts.get("keys_of_endpoints", ()))
    unreadable = _unreadable(vault, deployment.facts, missing=in_use - {"", *vault.key_ids})
    if unreadable:
        return unreadable
    if in_use - {vault.key_ids[0]}:
        return yellow(
            "card numbers or webhook secrets are under an older key, or of the form that is bound to no row",
            fix="flask jobs keys rotate",
        )
    return green("the keys decrypt the cards" if deployment.facts.get("cards") else "the keys are well formed")


def _unreadable(vault: Vault, facts: Facts, *, missing: set[str]) -> Finding | None:
    """Check the newest and the oldest card of each key, and that no text needs a key that is missing."""
    for card in facts.get("cards", ()):
        flow = card["tenant_id"], card["correlation_id"]
        try:
            number = vault.open(card["encrypted"], flow, number_hash=card["hash"])
        except Failure as failure:
            return red(f"card {card['id']}: {failure}", fix="see docs/doctor.md#keys")
        if vault.number_hash(number) != card["hash"]:
            return red(
                f"GIFTCARD_LOOKUP_KEY does not match card {card['id']}, which cannot be found by its number",
                fix="restore the previous key and deploy: it cannot be rotated",
            )
    if missing:
        return red(f"webhook secrets are under the key {min(missing)}, which is missing", fix="see docs/doctor.md#keys")
    return None


def rows(deployment: Deployment) -> Finding:
    """Check that no row was put aside within a day because work failed on it."""
    found = deployment.facts["faulty_rows"]
    if not found:
        return green("no row was put aside")
    first = [
        f"{row['kind']} {row['row_id']}{' (passed over)' if row['skipped'] else ''}: {row['error']}"
        for row in found[:3]
    ]
    more = f"; and {len(found) - 3} more" if len(found) > 3 else ""
    return yellow(
        f"work fails on rows: {'; '.join(first)}{more}",
        fix="correct the row, or what refuses it; then requeue the job or resume the schedule. "
        "All: table giftcard_faulty_rows",
    )


def calls(deployment: Deployment) -> Finding:
    """Check that the functions that stages may call exist, and that this role may execute them."""
    found = deployment.facts["unusable_settle_functions"]
    if found is None:  # the list is empty
        raise FactMissing("unusable_settle_functions")
    if not found:
        return green("the functions that stages may call exist")
    first = [f"{row['name']} {_CALLS[row['problem']]}" for row in found[:3]]
    more = f"; and {len(found) - 3} more" if len(found) > 3 else ""
    return red(f"a job that calls it is a dead letter: {'; '.join(first)}{more}", fix="see docs/doctor.md#calls")


def books(deployment: Deployment) -> Finding:
    """Check that money and cards match."""
    found = deployment.facts["differences"]
    if not found:
        return green("money and cards match")
    kinds = ", ".join(f"{kind.replace('_', ' ')}: {items}" for kind, items in sorted(found.items()))
    return yellow(f"money and cards do not match: {kinds}", fix="flask jobs orders reconcile")


def stages(deployment: Deployment) -> Finding:
    """Check that every stage can run, and that no job waits for one that cannot."""
    queued = deployment.facts.get("queued", {})
    registry = deployment.registry
    parked_by = registry.unready(deployment.settings)
    unready = {name: why for name, why in parked_by.items() if is_setting(why)}
    broken = [
        f"{name} {'cannot be loaded' if name in registry.broken else 'cannot run'}: {why}"
        for name, why in parked_by.items()
        if name not in unready
    ]
    steps = [step for step in deployment.settings.giftcard_order_flow if not registry.knows(step)]
    broken += [f"GIFTCARD_ORDER_FLOW has the step {step}, which this code does not have" for step in steps]
    unknown = sorted(name for name in queued if not registry.knows(name))
    waiting = [f"jobs wait for the stage {name}, which this code does not have" for name in unknown]
    waiting += [f"jobs of {name} wait for {unready[name]}" for name in sorted(queued) if name in unready]
    parked = [f"{name} is parked until {setting} is set" for name, setting in unready.items() if name not in queued]
    paused = [f"{'everything' if name == '*' else name} is paused" for name in deployment.facts.get("paused", ())]
    if not broken + waiting + parked + paused:
        return green("all stages can run")
    fixes = ["correct it and deploy again"] if broken else []
    fixes += ["deploy the code that has the stage, or cancel its jobs"] if unknown else []
    fixes += ["set the missing settings and deploy again"] if unready else []
    fixes += ["to end a pause: flask jobs resume NAME"] if paused else []
    return (red if broken + waiting else yellow)("; ".join(broken + waiting + parked + paused), fix="; ".join(fixes))


def limits(deployment: Deployment) -> Finding:
    """Check that no limit stops work for good, and that each is of a stage that exists."""
    found = deployment.facts["limits"]
    stopped = [_stopped(limit) for limit in found["stopped"][:3]]
    stopped += [f"and {len(found['stopped']) - 3} more"] if len(found["stopped"]) > 3 else []
    lost = [
        f"the limit {key} is of the stage {stage}, which this code does not have"
        for stage, key in found["stages"].items()
        if not deployment.registry.knows(stage)
    ]
    if not stopped + lost:
        return green("no limit stops work for good, and each is of a stage that exists")
    fixes = ["set it anew with an end (--for 2h): flask jobs limits set"] if stopped else []
    fixes += ["to remove one: flask jobs limits remove"]
    return yellow("; ".join(stopped + lost), fix="; ".join(fixes))


def _stopped(limit: Json) -> str:
    since = "" if limit["age"] is None else f", set {span(limit['age'])} ago"
    why = f": {limit['reason']}" if limit["reason"] else ""
    return f"{label(limit)}: none starts, without an end{since} by {limit['by'] or 'somebody'}{why}"

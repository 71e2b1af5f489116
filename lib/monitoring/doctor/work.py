"""Checks of what jobs need: keys that decrypt the cards, stages that can run."""

from lib.errors import TransientError
from lib.giftcards.cards import missing_key, vault_of
from lib.monitoring.doctor.finding import Deployment, Finding, green, red, yellow


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
    which = ("newest", "oldest")
    for age, card in zip(which, deployment.facts.get("cards", ()), strict=False):
        try:
            number = vault.open(card["encrypted"])
        except TransientError:
            return red(
                f"no key decrypts the {age} card",
                fix="put the key that encrypted it back into GIFTCARD_ENCRYPTION_KEYS, behind the newest",
            )
        if vault.number_hash(number) != card["hash"]:
            return red(
                f"GIFTCARD_LOOKUP_KEY does not match the {age} card, which cannot be found by its number",
                fix="restore the previous key and deploy: it cannot be rotated",
            )
    return green("the keys decrypt the cards" if deployment.facts.get("cards") else "the keys are well formed")


def stages(deployment: Deployment) -> Finding:
    """Check that every stage can run, and that no job waits for one that cannot."""
    queued = deployment.facts.get("queued", {})
    unready = deployment.registry.unready(deployment.settings)
    unknown = sorted(set(queued) - set(deployment.registry.stages))
    waiting = [f"jobs wait for the stage {name}, which this code does not have" for name in unknown]
    waiting += [f"jobs of {name} wait for {unready[name]}" for name in sorted(queued) if name in unready]
    parked = [f"{name} is parked until {setting} is set" for name, setting in unready.items() if name not in queued]
    paused = [f"{'everything' if name == '*' else name} is paused" for name in deployment.facts.get("paused", ())]
    if not waiting + parked + paused:
        return green("all stages can run")
    fixes = ["deploy the code that has the stage, or cancel its jobs"] if unknown else []
    fixes += ["set the missing settings and deploy again"] if unready else []
    fixes += ["flask jobs resume NAME ends a pause"] if paused else []
    return (red if waiting else yellow)("; ".join(waiting + parked + paused), fix="; ".join(fixes))

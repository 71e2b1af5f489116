"""Whether the work can be done: keys that open the cards, stages that can run."""

from lib.errors import TransientError
from lib.giftcards.cards import missing_key, vault_of
from lib.monitoring.doctor.finding import Finding, Patient, green, red, yellow


def keys(patient: Patient) -> Finding:
    """Card numbers can be kept, and those that are kept can be read."""
    missing = missing_key(patient.settings)
    if missing:
        return red(
            f"{missing} is not set: no card can be made or sent",
            mend="set it (docs/deploying.md#the-settings tells how to make one), keep a copy, deploy again",
        )
    try:
        vault = vault_of(patient.settings)
    except ValueError as error:
        return red(
            str(error), mend="set it anew (docs/deploying.md#the-settings tells how to make one) and deploy again"
        )
    which = ("newest", "oldest")
    for age, card in zip(which, patient.facts.get("cards", ()), strict=False):
        try:
            number = vault.open(card["encrypted"])
        except TransientError:
            return red(
                f"no key opens the {age} card",
                mend="put the key it was made with back into GIFTCARD_ENCRYPTION_KEYS, behind the newest",
            )
        if vault.number_hash(number) != card["hash"]:
            return red(
                f"GIFTCARD_LOOKUP_KEY is not the one of the {age} card, which cannot be found by its number",
                mend="set the former one again and deploy: it does not rotate",
            )
    return green("the keys open the cards" if patient.facts.get("cards") else "the keys are well formed")


def stages(patient: Patient) -> Finding:
    """Every stage can run, and no job waits for one that cannot."""
    queued = patient.facts.get("queued", {})
    unready = patient.registry.unready(patient.settings)
    unknown = sorted(set(queued) - set(patient.registry.stages))
    waiting = [f"jobs wait for the stage {name}, which this code does not know" for name in unknown]
    waiting += [f"jobs of {name} wait for {unready[name]}" for name in sorted(queued) if name in unready]
    parked = [f"{name} is parked until {setting} is set" for name, setting in unready.items() if name not in queued]
    paused = [f"{'everything' if name == '*' else name} is paused" for name in patient.facts.get("paused", ())]
    if not waiting + parked + paused:
        return green("all can run")
    mends = ["deploy the code that knows the stage, or cancel its jobs"] if unknown else []
    mends += ["set what is missing and deploy again"] if unready else []
    mends += ["flask jobs resume NAME ends a pause"] if paused else []
    return (red if waiting else yellow)("; ".join(waiting + parked + paused), mend="; ".join(mends))

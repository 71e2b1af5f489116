"""Settings that contradict each other: each is valid, and one of them could not have its effect."""

from collections.abc import Iterator, Mapping

from lib.config.settings import Settings
from lib.config.stage_overrides import StageOverrides, variable


def contradictions(settings: Settings, overrides: Mapping[str, StageOverrides]) -> Iterator[str]:
    """Return a sentence for each contradiction, which names both variables."""
    if settings.giftcard_inline and settings.is_production:
        yield f"GIFTCARD_INLINE requires GIFTCARD_ENV=development or test, but this is {settings.environment}"
    if settings.giftcard_page_open and settings.is_production:
        yield f"GIFTCARD_PAGE_OPEN requires GIFTCARD_ENV=development or test, but this is {settings.environment}"
    base, cap = settings.giftcard_backoff_base_seconds, settings.giftcard_backoff_cap_seconds
    if base > cap:
        yield (
            f"GIFTCARD_BACKOFF_BASE_SECONDS: must be at most GIFTCARD_BACKOFF_CAP_SECONDS, which is {cap:g}: "
            "lower the one, or raise the other"
        )
    if settings.giftcard_customer_page and "giftcard_customer_page" in settings.model_fields_set:
        yield from _of_page(settings)
    for stage, own in overrides.items():
        yield from _of_stage(stage, own)


def _of_page(settings: Settings) -> Iterator[str]:
    if settings.public_url is None:
        yield "GIFTCARD_CUSTOMER_PAGE: requires GIFTCARD_PUBLIC_URL, which the links in mails begin with: set it"
    for name in ("giftcard_encryption_keys", "giftcard_lookup_key"):
        if getattr(settings, name) is None:
            yield f"GIFTCARD_CUSTOMER_PAGE: requires {name.upper()}, without which no card can be shown: set it"


def _of_stage(stage: str, own: StageOverrides) -> Iterator[str]:
    for low, high in (("base_seconds", "cap_seconds"), ("ttr_seconds", "longest_seconds")):
        least, most = getattr(own, low), getattr(own, high)
        if least is not None and most is not None and least > most:
            name, other = variable(stage, low), variable(stage, high)
            yield f"{name}: must be at most {other}, which is {most:g}: lower the one, or raise the other"
    if own.semantics == "at_most_once" and (own.max_attempts or 1) > 1:
        name, other = variable(stage, "max_attempts"), variable(stage, "semantics")
        yield f"{name}: must be 1 or unset, because {other} is at_most_once: such a job has one attempt"

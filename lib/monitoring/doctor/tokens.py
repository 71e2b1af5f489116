"""The check of the secrets that we choose ourselves: tokens of endpoints, and the keys of cards."""

import math
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import combinations, pairwise

from pydantic import SecretStr

from lib.config.settings import Settings
from lib.encryption import split_keys
from lib.monitoring.doctor.finding import Deployment, Finding, green, red, yellow

# Characters. `make secrets` generates 43.
_SHORTEST = 24
# Of the estimate below: 24 random characters have more, even if they are digits only.
_FEWEST_BITS = 36

_REQUIRED = {
    "cron_secret": "the clock cannot call",
    "giftcard_admin_token": "operators cannot use the API",
    "giftcard_api_token": "orders need the admin token",
}
_OPTIONAL = ("giftcard_metrics_token", "giftcard_lookup_key")
_GENERATE = (
    "run make secrets, which adds what .env.production lacks; load that file here, or set its variables in the "
    "deployment and deploy again"
)
_REPLACE = "replace each as docs/doctor.md#secrets describes, and deploy again"
# Chosen by others: who knows one of these must not know one of ours.
_OTHERS = ("giftcard_payment_token", "giftcard_card_token", "square_webhook_signature_key")
# What placeholders consist of. It counts as nothing.
_PLACEHOLDERS = re.compile(
    r"(?i)change|replace|insert|please|placeholder|example|sample|default|secret|password|passwd|token|api|key|admin|"
    r"cron|metrics|lookup|gift|card|production|prod|staging|development|test|local|vercel|supabase|your|with|here|"
    r"this|that|value|random|string|long|very|strong|todo|qwerty|qwertz|asdf|yxcv|zxcv|letmein|welcome|hello|hunter2"
)


def secrets(deployment: Deployment) -> Finding:
    """Check that each token is set, unique, long enough, hard to guess, and valid in a header."""
    settings = deployment.settings
    values = _values(settings, (*_REQUIRED, *_OPTIONAL))
    wrong = [f"{name.upper()} is not set: {effect}" for name, effect in _REQUIRED.items() if name.upper() not in values]
    is_only_yellow = wrong == [f"GIFTCARD_API_TOKEN is not set: {_REQUIRED['giftcard_api_token']}"]
    found = [f"{name} {fault}" for name, value in values.items() for fault in _faults(value)]
    found += _weak_keys(settings.giftcard_encryption_keys)
    others = _values(settings, _OTHERS)
    others |= {f"GIFTCARD_SECRET_{name}": own.value.get_secret_value() for name, own in settings.job_secrets.items()}
    pairs = [*combinations(values.items(), 2), *((own, other) for own in values.items() for other in others.items())]
    found += [f"{name} and {another} are the same" for (name, one), (another, two) in pairs if one == two]
    if not wrong + found:
        return green("every token is set, long enough, hard to guess and unique")
    fix = _GENERATE if not found else f"{_REPLACE}; {_GENERATE}" if wrong else _REPLACE
    if is_only_yellow and not found:
        return yellow(wrong[0], fix=fix)
    return red("; ".join(wrong + found), fix=fix)


def _values(settings: Settings, names: Sequence[str]) -> dict[str, str]:
    """Return the secrets that are set by the names of their variables."""
    named: dict[str, SecretStr | None] = {name: getattr(settings, name) for name in names}
    values = {name.upper(): secret.get_secret_value() for name, secret in named.items() if secret is not None}
    return {name: value for name, value in values.items() if value.strip()}


def _faults(value: str) -> Iterator[str]:
    """Return the first thing that is wrong with a token, if any."""
    if not (value.isascii() and value.isprintable()):
        yield "contains characters that a header cannot hold"
    elif len(value) < _SHORTEST:
        yield f"is shorter than {_SHORTEST} characters"
    elif estimated_bits(value) < _FEWEST_BITS:
        yield "is easy to guess"


def _weak_keys(keys: SecretStr | None) -> list[str]:
    """Return which encryption keys are easy to guess. Whether they are keys at all is checked in `keys`."""
    split = split_keys(keys)
    return [
        f"key {number} of GIFTCARD_ENCRYPTION_KEYS is easy to guess"
        for number, key in enumerate(split, start=1)
        if estimated_bits(key) < _FEWEST_BITS
    ]


def estimated_bits(value: str) -> float:
    """Return about how many bits a guesser has to find, from the value alone: more than that it cannot be.

    Repetitions, sequences and the words of placeholders count as nothing. A sentence of your own is overestimated:
    only values that a program generates are surely hard to guess.
    """
    rest = _PLACEHOLDERS.sub("", value)
    steps = [ord(after) - ord(before) for before, after in pairwise(rest)]
    return min(_information(rest), _information(steps))


def _information(values: Sequence[object]) -> float:
    """Return Shannon's information of one value, in bits, times how many groups of three differ."""
    counts = Counter(values)
    each = -sum(count / len(values) * math.log2(count / len(values)) for count in counts.values())
    return each * len({tuple(values[start : start + 3]) for start in range(len(values) - 2)})

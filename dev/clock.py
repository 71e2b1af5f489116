"""The minute clock of development: it calls the cron endpoint as Vercel does."""

import threading
import time
from collections.abc import Callable

import httpx

_CALL_TIMEOUT = 300.0  # seconds; the function's maxDuration in vercel.json
_COUNTS = ("started", "completed", "retried", "errored", "snoozed", "interrupted", "lease_lost", "revived")
_GRACE = 3.0  # seconds for pending calls to end when the clock is stopped


def run_clock(
    url: str,
    secret: str,
    *,
    every: float = 60.0,
    at_once: bool = False,
    stop: threading.Event,
    report: Callable[[str], None] = print,
) -> None:
    """Call the cron endpoint at `url` on each full interval of `every` seconds until `stop` is set.

    Calls do not wait for each other, so they overlap as on Vercel. `at_once`: call it now, too. `report` gets one line
    per call. Errors do not end the clock.
    """
    calls: list[threading.Thread] = []
    beat = int(time.time() // every) + (0 if at_once else 1)
    while not stop.wait(max(0.0, beat * every - time.time())):
        call = threading.Thread(target=_call, args=(url, secret, report), name=f"clock-{beat}", daemon=True)
        call.start()
        calls = [*(earlier for earlier in calls if earlier.is_alive()), call]
        # after a sleep of the machine, skip the missed calls
        beat = max(beat, int(time.time() // every)) + 1
    end = time.monotonic() + _GRACE
    for call in calls:
        call.join(max(0.0, end - time.monotonic()))


def _call(url: str, secret: str, report: Callable[[str], None]) -> None:
    headers = {"Authorization": f"Bearer {secret}", "User-Agent": "vercel-cron/1.0"}
    try:
        response = httpx.get(f"{url}/api/cron/giftcard-jobs", headers=headers, timeout=_CALL_TIMEOUT)
        line = f"{response.status_code} {_summary(response)}"
    except Exception as error:  # noqa: BLE001 - no error may stop the clock
        line = f"no response: {type(error).__name__}: {error}"
    report(f"{time.strftime('%H:%M:%S')} tick {line}")


def _summary(response: httpx.Response) -> str:
    """Return the counts of a report; of any other response, the start."""
    try:
        body = response.json()
    except ValueError:
        body = None
    if not isinstance(body, dict) or "started" not in body:
        return " ".join(response.text.split())[:120]
    counts = [f"{body[name]} {name.replace('_', ' ')}" for name in _COUNTS if body.get(name)]
    circuits = [f"circuit {name} opened" for name in body.get("circuits_opened") or []]
    return ", ".join(counts + circuits) or "nothing due"

"""The minute clock of development: it calls the cron door as Vercel does."""

import threading
import time
from collections.abc import Callable

import httpx

_LONGEST_CALL = 300.0  # seconds; the function's maxDuration in vercel.json
_SHOWN = ("started", "completed", "retried", "errored", "snoozed", "interrupted", "lease_lost", "revived")
_GRACE = 3.0  # seconds that calls under way get to end when the clock is stopped


def run_clock(
    url: str, secret: str, *, every: float = 60.0, stop: threading.Event, tell: Callable[[str], None] = print
) -> None:
    """Calls the cron door of the application at `url` on each full interval of `every` seconds until `stop` is set.

    A call does not wait for the former one to end, so calls overlap as they do on Vercel. What comes of each is
    told in one line. No error ends the clock.
    """
    calls: list[threading.Thread] = []
    beat = int(time.time() // every) + 1
    while not stop.wait(max(0.0, beat * every - time.time())):
        call = threading.Thread(target=_call, args=(url, secret, tell), name=f"clock-{beat}", daemon=True)
        call.start()
        calls = [*(earlier for earlier in calls if earlier.is_alive()), call]
        # a machine that slept is behind: one call then, not all that were missed
        beat = max(beat, int(time.time() // every)) + 1
    end = time.monotonic() + _GRACE
    for call in calls:
        call.join(max(0.0, end - time.monotonic()))


def _call(url: str, secret: str, tell: Callable[[str], None]) -> None:
    headers = {"Authorization": f"Bearer {secret}", "User-Agent": "vercel-cron/1.0"}
    try:
        response = httpx.get(f"{url}/api/cron/giftcard-jobs", headers=headers, timeout=_LONGEST_CALL)
        line = f"{response.status_code} {_summary(response)}"
    except Exception as error:  # noqa: BLE001 - a clock that stops on an error is no clock
        line = f"no answer: {type(error).__name__}: {error}"
    tell(f"{time.strftime('%H:%M:%S')} tick {line}")


def _summary(response: httpx.Response) -> str:
    """The report in a few words; of anything else, the beginning."""
    try:
        report = response.json()
    except ValueError:
        report = None
    if not isinstance(report, dict) or "started" not in report:
        return " ".join(response.text.split())[:120]
    counts = [f"{report[name]} {name.replace('_', ' ')}" for name in _SHOWN if report.get(name)]
    circuits = [f"circuit {name} opened" for name in report.get("circuits_opened") or []]
    return ", ".join(counts + circuits) or "nothing due"

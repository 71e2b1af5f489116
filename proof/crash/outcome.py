"""What became of a night: the facts that are broken, and a table."""

from collections import Counter
from textwrap import wrap

from proof.crash.night import Night, Say

_SHOWN = 20
_LONGEST = 300
_WIDTH = 52


def tell(night: Night) -> list[str]:
    """Say what became of it; return the facts that are broken."""
    shop, house = night.shop, night.house
    runs = dict(house.rows("select result, count(*) from giftcard_job_history group by result order by result"))
    points = Counter(name.split(" ", 2)[2] for name in house.appointments.kept())
    mails = [len(ids) for ids in shop.mailbox.mails.values()]
    charges, cards = (sum(made.stage == stage for made in shop.vendor.made) for stage in ("payment", "issue_card"))
    at_points = sum(points.values())
    _table(
        night.say,
        [
            ("orders", len(shop.orders), f"{charges:,} charges and {cards:,} cards in the vendor's books"),
            ("jobs", sum(count for _, count in _jobs(night)), _counts(dict(_jobs(night)))),
            ("runs", sum(runs.values()), _counts(runs)),
            ("workers killed", house.killed, f"{at_points:,} of them at named points: {_counts(points)}"),
            ("vendor's requests", sum(shop.vendor.fates.values()), _counts(shop.vendor.fates)),
            ("mails", sum(mails), f"{sum(mails) - len(mails):,} of them came again, with the same Message-ID"),
            ("ticks", len(night.ended), _ticks(night)),
        ],
    )
    broken = night.late + shop.broken()
    for words, count in night.failed.most_common(_SHOWN):
        night.say(f"  {count} × {words}")
    for line in broken[:_SHOWN]:
        night.say(f"BROKEN  {line[:_LONGEST]}")
    if len(broken) > _SHOWN:
        night.say(f"BROKEN  and {len(broken) - _SHOWN} more")
    return broken


def _jobs(night: Night) -> list[tuple[str, int]]:
    return [(row[0], row[1]) for row in night.house.rows("select status, count(*) from giftcard_jobs group by 1")]


def _ticks(night: Night) -> str:
    longest = max((tick.seconds for tick in night.ended), default=0.0)
    return f"{sum(night.failed.values()):,} ended with an error of the database; the longest took {longest:.1f} s"


def _counts(counts: dict[str, int]) -> str:
    return ", ".join(f"{name} {count:,}" for name, count in sorted(counts.items(), key=lambda one: -one[1]))


def _table(say: Say, rows: list[tuple[str, int, str]]) -> None:
    for name, count, about in rows:
        first, *more = wrap(about, _WIDTH) or [""]
        say(f"  {name:17} {count:7,}  {first}")
        for line in more:
            say(f"{'':28}{line}")

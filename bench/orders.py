"""Orders a second, through the five stages with everything that they write: python -m bench orders [--orders 2000]

As a command it prints JSON alone, so that an older checkout can be measured with the files of this folder in it.
"""

import argparse
import json
import os
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from bench.child import install, measured
from bench.contenders.orders import mailed
from bench.measure import Sample
from bench.scale import Scale
from bench.server import bench_server, drop, fresh, tidy
from bench.sink import sink
from bench.table import bars, costs, line, title
from dev import LOCAL
from dev.keys import secrets_file
from dev.postgres import Embedded

_CONCURRENCY = 10
_AS_DEPLOYED = "the same with the log, an endpoint, an open circuit"


@dataclass(frozen=True, slots=True, kw_only=True)
class Variant:
    """How many processes with how many ticks each; with what beside the orders."""

    name: str
    processes: int = 1
    ticks: int = 1
    log: bool = False
    endpoint: bool = False
    circuit: bool = False


VARIANTS = (
    Variant(name="1 process, 1 tick"),
    Variant(name="1 process, 3 ticks", ticks=3),
    Variant(name="2 processes, 1 tick", processes=2),
    Variant(name=_AS_DEPLOYED, processes=2, log=True, endpoint=True, circuit=True),
)


def orders(server: Embedded, scale: Scale) -> None:
    """Measure the variants one after the other."""
    title(f"{scale.orders:,} orders through five stages", note="payment and card by the ledger, mail to a sink")
    taken = measured_orders(server, VARIANTS, orders=scale.orders)
    bars([line(name, [sample]) for name, sample in taken.items()], unit="orders/s")


def measured_orders(server: Embedded, variants: Sequence[Variant], *, orders: int) -> dict[str, Sample]:
    """Return a sample by the name of the variant; its items are orders."""
    with sink() as ports:
        return {variant.name: _measured(server, variant, orders=orders, ports=ports) for variant in variants}


def _measured(server: Embedded, variant: Variant, *, orders: int, ports: Mapping[str, int]) -> Sample:
    url = fresh(server)
    install("orders", url)
    environ = secrets_file(LOCAL / "bench-secrets.json") | {
        "SMTP_URL": f"smtp://127.0.0.1:{ports['smtp']}",
        "GIFTCARD_CONCURRENCY": str(_CONCURRENCY),
        "GIFTCARD_ALLOWED_NETWORKS": "127.0.0.0/8",
    }
    endpoint = f"http://127.0.0.1:{ports['http']}/" if variant.endpoint else None
    common: dict[str, Any] = {"environ": environ}
    measured("orders", "enqueue", url, count=orders, endpoint=endpoint, circuit=variant.circuit, **common)
    tidy(url)
    sample = measured(
        "orders", "drain", url, processes=variant.processes, ticks=variant.ticks, log=variant.log, **common
    )
    if (done := mailed(url)) != orders:
        raise RuntimeError(f"{variant.name}: {done} of {orders} orders were mailed")
    drop(server, url)
    return replace(sample, count=orders)


def main(arguments: Sequence[str]) -> None:
    """Run the command `python -m bench orders`."""
    parser = argparse.ArgumentParser(prog="bench orders", description="Measure orders, and print JSON.")
    parser.add_argument("--orders", type=int, default=2_000)
    parser.add_argument("--rounds", type=int, default=1)
    parser.add_argument("--only", type=int, nargs="*", default=range(len(VARIANTS)), help="numbers of variants, from 0")
    options = parser.parse_args(arguments)
    variants = [VARIANTS[number] for number in options.only]
    taken: dict[str, list[Sample]] = {variant.name: [] for variant in variants}
    with bench_server() as server:
        for _ in range(options.rounds):
            for name, sample in measured_orders(server, variants, orders=options.orders).items():
                taken[name].append(sample)
    report = {
        name: {"orders_per_second": [round(sample.per_second, 2) for sample in samples]} | costs(samples)
        for name, samples in taken.items()
    }
    sys.stdout.write(json.dumps({"load": os.getloadavg()[0], "variants": report}, indent=2) + "\n")

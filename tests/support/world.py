"""An application over a fresh database, and what tests do to it: orders, ticks, moved time, looks behind the scenes."""

import json
from collections.abc import Iterator
from contextlib import closing, contextmanager
from typing import Any

from flask.testing import FlaskClient
from pydantic import BaseModel, ConfigDict
from werkzeug.test import TestResponse

from dev.testing import labs
from lib.config.settings import Settings
from lib.jobs.registry import Registry
from lib.jobs.stage import Handler, Stage, stage
from lib.store.store import Store
from lib.store.wire import Wire
from lib.web.app import create_app
from lib.web.services import Services
from tests.support.as_database import add_webhook

CRON, ADMIN, API = "clock-8kq2Zr7wLx4Vn9Ty3Hs6", "admin-Jd5mQp1zXc8Vb2Ns7Rg4", "orders-Tf9hWk3yBn6Ml0Pq2Zx8"
ENCRYPTION_KEY = "dGhpcyBpcyBub3QgYSBzZWNyZXQsIGJ1dCBhIGtleSE="
LOOKUP_KEY = "a-lookup-key-of-more-than-32-characters"

ENVIRON: dict[str, Any] = {
    "GIFTCARD_ENV": "test",
    "CRON_SECRET": CRON,
    "GIFTCARD_ADMIN_TOKEN": ADMIN,
    "GIFTCARD_API_TOKEN": API,
    "GIFTCARD_ENCRYPTION_KEYS": ENCRYPTION_KEY,
    "GIFTCARD_LOOKUP_KEY": LOOKUP_KEY,
    # Time is moved, not waited for.
    "GIFTCARD_TICK_LINGER": "0",
}


def settings_of(**environ: Any) -> Settings:
    """Settings as `load` makes them of these variables and no others. None: not set."""
    return labs.settings_of(**(ENVIRON | environ))


class Anything(BaseModel):
    """A payload that says what it wants."""

    model_config = ConfigDict(extra="allow")


def a_stage(name: str, handler: Handler, **options: Any) -> Stage:
    """A stage of a test, which takes any payload."""
    return stage(name, payload=Anything, **options)(handler)


def bearer(token: str) -> dict[str, str]:
    return {"Authorization": f"Bearer {token}"}


class World(labs.Lab):
    """A lab with its doors. Settings are given as environment variables: `World(url, GIFTCARD_PAUSED=1)`.

    `handlers` or `registry` replace the stages of the house.
    """

    def __init__(
        self,
        url: str,
        *,
        handlers: dict[str, Handler] | None = None,
        registry: Registry | None = None,
        wire: Wire | None = None,
        **environ: Any,
    ) -> None:
        if handlers is not None:
            registry = Registry({name: a_stage(name, handler) for name, handler in handlers.items()})
        super().__init__(url, registry=registry, store=Store(wire) if wire else None, **(ENVIRON | environ))
        self.services = Services(self.settings, self.store, lambda: self.registry)
        self.app = create_app(self.services)
        self.client: FlaskClient = self.app.test_client()
        self._counts: str | None = None

    # Through the doors

    def tick(self, **headers: str) -> dict[str, Any]:
        """A call of the clock's door; its report."""
        response = self.client.get("/api/cron/giftcard-jobs", headers=bearer(CRON) | headers)
        assert response.status_code == 200, response.text
        report: dict[str, Any] = json.loads(response.text)
        return report

    def submit(self, body: Any = None, *, token: str = API, **headers: str) -> TestResponse:
        """An order at its door, as `an_order` makes it."""
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        return self.client.post("/api/v1/giftcards", json=body or an_order(), headers=bearer(token) | named)

    def flow(self, correlation_id: str, **query: str) -> dict[str, Any]:
        """Where an order stands, as its door tells."""
        response = self.client.get(f"/api/v1/giftcards/{correlation_id}", headers=bearer(API), query_string=query)
        assert response.status_code == 200, response.text
        flow: dict[str, Any] = json.loads(response.text)
        return flow

    # Past the doors

    def enqueue(self, stage: str, payload: Any = None, *, count: int = 1, **columns: Any) -> list[int]:
        """Jobs, each of a flow of its own; their ids."""
        return [self.add(stage, payload, **columns) for _ in range(count)]

    def add(self, stage: str, payload: Any = None, **columns: Any) -> int:
        if stage != "webhook":
            return super().add(stage, payload, **columns)
        flow = {"correlation_id": f"flow-{self.value('select count(*) from public.giftcard_jobs') + 1}"}
        return add_webhook(self.sql, **flow | {"payload": payload or {}} | columns)

    def statuses(self) -> dict[str, int]:
        rows = self.sql("select status, count(*) as jobs from public.giftcard_jobs group by status")
        return {row["status"]: row["jobs"] for row in rows}

    def row_counts(self) -> dict[str, int]:
        """How many rows each table of ours has."""
        if self._counts is None:
            tables = self.sql("select tablename as name from pg_tables where tablename like 'giftcard%%'")
            counts = ", ".join(f"(select count(*) from public.{t['name']}) as {t['name']}" for t in tables)
            self._counts = f"select {counts}"
        return self.sql(self._counts)[0]


def an_order(**changes: Any) -> dict[str, Any]:
    """Kate's order; `customer` is merged, the rest replaced."""
    customer = {"external_id": "CUST-1520", "given_name": "Kate", "family_name": "Rodgers", "email": "kate@example.com"}
    order = {"customer": customer | changes.pop("customer", {}), "amount": {"amount": 2500, "currency": "USD"}}
    return order | changes


@contextmanager
def a_world(url: str, **options: Any) -> Iterator[World]:
    """A world that is closed in the end."""
    with closing(World(url, **options)) as world:
        yield world

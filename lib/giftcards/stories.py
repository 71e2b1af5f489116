"""Find orders, show the story of one and its mail: shared by the web API, the page and the CLI."""

from collections.abc import Callable
from typing import Any

from lib.caller import Caller
from lib.config.settings import Settings
from lib.errors import Refused
from lib.giftcards.schemas import OrderSearch
from lib.giftcards.story import covered_recipient, story_of
from lib.jobs.registry import Registry
from lib.jobs.shown import paused_by_setting
from lib.mail_address import normalized
from lib.store.store import Store

Json = dict[str, Any]


class Stories:
    """The orders of a store, for reading. What shows personal data is recorded in the audit.

    A `tenant_id` None is the caller's own. For another one than theirs, every method raises Forbidden.
    """

    def __init__(self, store: Store, registry: Callable[[], Registry], settings: Settings, *, caller: Caller) -> None:
        self._store = store
        self._registry = registry
        self._settings = settings
        self._caller = caller

    def find(self, wanted: OrderSearch) -> Json:
        """Return the orders that fit a text, the newest first: {orders, more}.

        To find somebody's orders by their address shows whose they are, and is recorded like a reveal.
        """
        tenant_id = self._caller.only(wanted.tenant_id)
        found = self._store.find_orders(_as_stored(wanted.text), limit=wanted.limit, tenant_id=tenant_id)
        orders = found["orders"]
        if wanted.reveal or any("email" in order["matched"] for order in orders):
            self._record_found(orders, tenant_id)
        if not wanted.reveal:
            orders = [order | {"recipient": covered_recipient(order["recipient"])} for order in orders]
        return found | {"orders": orders}

    def story(self, tenant_id: str | None, correlation_id: str, *, reveal: bool = False) -> Json:
        """Return the story of an order, from its intake to its mail: see `lib.giftcards.story.story_of`."""
        tenant_id, registry = self._caller.tenant(tenant_id), self._registry()
        known = {"stages": registry.ready(self._settings), "missing": registry.unready(self._settings)}
        found = self._store.order_story(tenant_id, correlation_id, **known)
        if self._settings.giftcard_paused:
            found["jobs"] = [paused_by_setting(job) for job in found["jobs"]]
        if reveal:
            self._record(tenant_id, correlation_id)
        return story_of(found, reveal=reveal)

    def mail(self, tenant_id: str | None, correlation_id: str, *, reveal: bool = False) -> Json:
        """Return the mail of an order as it looks: see `lib.giftcards.shown_mail`."""
        from lib.giftcards.shown_mail import shown_mail

        tenant_id = self._caller.tenant(tenant_id)
        books = self._store.books(tenant_id, correlation_id)
        if books is None:
            message = f"no order has the correlation id {correlation_id} (tenant {tenant_id})"
            raise Refused(message, sqlstate="GC404", field="correlation_id")
        if reveal:
            self._record(tenant_id, correlation_id)
        return shown_mail(books, self._settings, flow=(tenant_id, correlation_id), reveal=reveal)

    def _record(self, tenant_id: str, correlation_id: str) -> None:
        self._store.record_reveal(subject=f"order {correlation_id}", tenant_id=tenant_id, caller=self._caller)

    def _record_found(self, orders: list[Json], tenant_id: str | None) -> None:
        tenants = {order["tenant_id"] for order in orders}
        ids = [order["correlation_id"] for order in orders]
        subject = f"order {ids[0]}" if len(ids) == 1 else f"orders {ids}"
        tenant_id = tenants.pop() if len(tenants) == 1 else tenant_id
        self._store.record_reveal(subject=subject, tenant_id=tenant_id, caller=self._caller)


def _as_stored(text: str) -> str:
    """Return what to look for: an address as orders are stored with it. One of plain SQL may have any other form."""
    text = text.strip()
    try:
        return normalized(text) if "@" in text else text
    except ValueError:
        return text

"""The client for orders: the methods of `lib.giftcards.decisions.Decisions` and `lib.giftcards.stories.Stories`."""

from typing import Any

from lib.api_client.transport import Transport, segment
from lib.giftcards.schemas import (
    AcceptRequest,
    DifferenceQuery,
    FreeRequest,
    OrderSearch,
    PaymentEventRequest,
    RecipientPatch,
    ResendRequest,
)
from lib.jobs.schemas import FlowPage

Json = dict[str, Any]


class OrdersClient:
    """Signatures, results and errors are those of both. The API knows the operator by the token."""

    def __init__(self, transport: Transport) -> None:
        self._http = transport

    def show(self, tenant_id: str | None, correlation_id: str, page: FlowPage) -> Json:
        """Return the state of an order."""
        return self._http.get(_path(correlation_id), tenant_id=tenant_id, **page.model_dump())

    def reconcile(self, query: DifferenceQuery) -> Json:
        """Return where money and cards do not match. To verify the books may take a while."""
        given = query.model_dump() | {"verify": "true" if query.verify else None}
        return self._http.get("/api/v1/reconciliation", **given)

    def accept(self, request: AcceptRequest) -> Json:
        """Accept a difference."""
        return self._http.post("/api/v1/reconciliation/accept", request.model_dump(exclude_none=True))

    def make_free(self, tenant_id: str | None, correlation_id: str, request: FreeRequest) -> Json:
        """Waive the payment of an order."""
        path = f"{_path(correlation_id)}/free-of-charge"
        return self._http.post(path, request.model_dump(), tenant_id=tenant_id)

    def correct_recipient(self, tenant_id: str | None, correlation_id: str, request: RecipientPatch) -> Json:
        """Correct the recipient of an order."""
        path = f"{_path(correlation_id)}/recipient"
        return self._http.patch(path, request.changes(), tenant_id=tenant_id)

    def record_event(self, tenant_id: str | None, correlation_id: str, request: PaymentEventRequest) -> Json:
        """Record a movement of an order's money."""
        path = f"{_path(correlation_id)}/payment-events"
        return self._http.post(path, request.model_dump(mode="json"), tenant_id=tenant_id)

    def block_card(self, tenant_id: str | None, correlation_id: str) -> Json:
        """Have the card of an order blocked."""
        return self._http.post(f"{_path(correlation_id)}/block-card", tenant_id=tenant_id)

    def resend(self, tenant_id: str | None, correlation_id: str, request: ResendRequest) -> Json:
        """Have the mail of an order sent again."""
        body = request.model_dump(exclude_none=True)
        return self._http.post(f"{_path(correlation_id)}/resend", body, tenant_id=tenant_id)

    def find(self, wanted: OrderSearch) -> Json:
        """Return the orders that fit a text."""
        return self._http.post("/api/v1/orders/search", wanted.model_dump(exclude_none=True))

    def story(self, tenant_id: str | None, correlation_id: str, *, reveal: bool = False) -> Json:
        """Return the story of an order."""
        return self._http.get(f"{_path(correlation_id)}/story", reveal=reveal, tenant_id=tenant_id)


def _path(correlation_id: str) -> str:
    return f"/api/v1/giftcards/{segment(correlation_id)}"

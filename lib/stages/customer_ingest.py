"""The stage customer_ingest: record the customer of an order."""

from lib.giftcards.books import take_order
from lib.giftcards.flow import completed
from lib.giftcards.orders import Arrival
from lib.job import Complete
from lib.jobs.context import Context
from lib.jobs.stage import stage


@stage("customer_ingest", payload=Arrival)
def customer_ingest(arrival: Arrival, context: Context) -> Complete:
    """Create or update the customer: that of the order, whatever the payload."""
    order = None if arrival.without_order else take_order(context, arrival.order()).order
    who = order.customer if order else arrival.customer
    customer = context.store.save_customer(
        tenant_id=context.job.tenant_id,
        external_id=who.external_id,
        email=who.email,
        given_name=who.given_name,
        family_name=who.family_name,
        correlation_id=context.job.correlation_id if order else None,
    )
    if order is None:
        return Complete(context={"customer_id": customer["id"]})
    return completed(context, order, customer_id=customer["id"])

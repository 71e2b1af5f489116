"""The stage customer_ingest: record the customer of an order."""

from lib.giftcards.books import take_order
from lib.giftcards.orders import Arrival
from lib.job import Complete, NextJob
from lib.jobs.context import Context
from lib.jobs.stage import stage


@stage("customer_ingest", payload=Arrival)
def customer_ingest(arrival: Arrival, context: Context) -> Complete:
    """Create or update the customer: that of the order, whatever the payload. An order continues with personal_code."""
    who = arrival.customer
    if not arrival.without_order:
        who = take_order(context, arrival.order()).order.customer
    customer = context.store.save_customer(
        tenant_id=context.job.tenant_id,
        external_id=who.external_id,
        email=who.email,
        given_name=who.given_name,
        family_name=who.family_name,
        correlation_id=None if arrival.without_order else context.job.correlation_id,
    )
    following = () if arrival.without_order else (NextJob(stage="personal_code"),)
    return Complete(context={"customer_id": customer["id"]}, next=following)

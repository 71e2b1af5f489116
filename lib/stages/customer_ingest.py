"""The stage customer_ingest: record the customer of an order."""

from lib.giftcards.orders import Arrival
from lib.job import Complete, NextJob
from lib.jobs.context import Context
from lib.jobs.stage import stage


@stage("customer_ingest", payload=Arrival)
def customer_ingest(arrival: Arrival, context: Context) -> Complete:
    """Create or update the customer. An order continues with personal_code."""
    customer = context.store.save_customer(
        tenant_id=context.job.tenant_id,
        external_id=arrival.customer.external_id,
        email=arrival.customer.email,
        given_name=arrival.customer.given_name,
        family_name=arrival.customer.family_name,
        correlation_id=context.job.correlation_id,
    )
    following = () if arrival.without_order else (NextJob(stage="personal_code"),)
    return Complete(context={"customer_id": customer["id"]}, next=following)

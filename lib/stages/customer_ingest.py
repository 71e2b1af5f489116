"""The first stage of an order: who is it for?"""

from lib.context import Context
from lib.giftcards.orders import Order
from lib.job import Complete, NextJob
from lib.stages import stage


@stage("customer_ingest", payload=Order)
def customer_ingest(order: Order, context: Context) -> Complete:
    """Creates or updates the customer; the order itself was validated as this job's payload."""
    customer = context.store.save_customer(
        tenant_id=context.job.tenant_id,
        external_id=order.customer.external_id,
        email=order.customer.email,
        given_name=order.customer.given_name,
        family_name=order.customer.family_name,
        correlation_id=context.job.correlation_id,
    )
    return Complete(context={"customer_id": customer["id"]}, next=(NextJob(stage="personal_code"),))

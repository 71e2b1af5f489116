"""The stage personal_code: assign the customer a unique code, like KATE1520."""

from random import SystemRandom

from lib.errors import DuplicatePersonalCode, PermanentError
from lib.giftcards.orders import Order
from lib.giftcards.personal_codes import candidates
from lib.job import Complete, NextJob
from lib.jobs.context import Context
from lib.jobs.stage import stage

_TRIES = 3


@stage("personal_code", payload=Order)
def personal_code(order: Order, context: Context) -> Complete:
    """Assign one of a batch of random candidates, in three tries. A customer who has a code keeps it.

    Raises:
        DuplicatePersonalCode: all candidates are taken. Another attempt draws new ones.
    """
    customer_id = context.job.context.get("customer_id")
    if customer_id is None:
        raise PermanentError("the context has no customer_id: start the flow at customer_ingest")
    for attempt in range(1, _TRIES + 1):
        batch = candidates(order.customer.given_name, order.customer.external_id, attempt=attempt, rng=SystemRandom())
        code = context.store.assign_code(customer_id, candidates=tuple(batch))
        if code is not None:
            return Complete(context={"personal_code": code}, next=(NextJob(stage="payment"),))
    raise DuplicatePersonalCode(f"no free code in {_TRIES} tries")

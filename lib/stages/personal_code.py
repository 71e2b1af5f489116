"""The stage personal_code: assign the customer a unique code, like KATE1520."""

from random import SystemRandom

from lib.errors import DuplicatePersonalCode, PermanentError
from lib.giftcards.books import read_books
from lib.giftcards.flow import completed
from lib.giftcards.orders import Order
from lib.giftcards.personal_codes import candidates
from lib.job import Complete
from lib.jobs.context import Context
from lib.jobs.stage import stage

_TRIES = 3


@stage("personal_code", payload=Order)
def personal_code(payload: Order, context: Context) -> Complete:
    """Assign the order's customer one of a batch of random candidates, in three tries.

    A customer who has a code keeps it.

    Raises:
        DuplicatePersonalCode: all candidates are taken. Another attempt draws new ones.
    """
    books = read_books(context, payload)
    if books.customer_id is None:
        raise PermanentError("the order has no customer yet: start the flow at customer_ingest")
    customer = books.order.customer
    for attempt in range(1, _TRIES + 1):
        batch = candidates(customer.given_name, customer.external_id, attempt=attempt, rng=SystemRandom())
        code = context.store.assign_code(books.customer_id, candidates=tuple(batch))
        if code is not None:
            return completed(context, books.order, personal_code=code)
    raise DuplicatePersonalCode(f"no free code in {_TRIES} tries")

"""The audit: the reasons that operators give, and requests for its pages."""

from typing import Annotated

from pydantic import AfterValidator, Field

from lib.telemetry.redact import covered
from lib.validation import Id, Identifier, Matching, Moment, StrictModel

# Why an operator acts. It is stored for good, so what looks like a login, a card or an address is masked before.
Reason = Annotated[Identifier, AfterValidator(covered)]

# What operators do, as the audit names it.
ACTIONS = (
    *("add_to_batch", "create_batch", "seal_batch"),
    *("accept_difference", "block_card", "cancel", "cancel_flow", "correct_recipient", "create_endpoint"),
    *(
        "create_operation",
        "create_schedule",
        "create_token",
        "decide_effect",
        "delete_endpoint",
        "delete_schedule",
        "enqueue",
    ),
    *("erase_customer", "free_of_charge", "make_report", "pause", "pause_schedule", "payment_event"),
    *("remove_limit", "requeue", "set_limit"),
    *("resend", "reset_circuit", "restore", "resume", "resume_schedule", "reveal", "revoke_token", "rotate_keys"),
    *("rotate_secret", "run_schedule", "stop_operation", "test_endpoint", "update_endpoint", "update_schedule"),
)


class AuditPage(StrictModel):
    """A page of the acts of operators: all given fields must match. `older`: the cursor of an earlier page.

    `by`: the name of the token, the user of the command line, or the database role. `subject`: what was changed, like
    `job 7`. `since`: at this time or later.
    """

    by: Identifier | None = None
    action: Annotated[str, Matching("^[a-z_]{1,50}$", "must be the name of an action, like requeue")] | None = None
    subject: Identifier | None = None
    since: Moment | None = None
    tenant_id: Identifier | None = None
    limit: Annotated[int, Field(ge=1, le=200)] = 50
    older: Id | None = None

"""Forms of messages that other services send, and what each becomes."""

from typing import Any, Literal

from pydantic import ValidationError, model_validator

from lib.giftcards.orders import Money
from lib.jobs.schemas import Priority
from lib.jobs.stage import Stage
from lib.reports.schemas import Day
from lib.validation import Identifier, StrictModel, error_sentence, field_errors

Json = dict[str, Any]


class PaymentMessage(StrictModel):
    """A message that asks for the payment of an order. `reference`: the order's correlation id.

    `amount` is our form of an amount, or minor units with a `currency` beside them; never a decimal number.
    """

    reference: Identifier
    amount: Money

    @model_validator(mode="before")
    @classmethod
    def _one_form(cls, value: Json) -> Json:
        rest = {name: content for name, content in value.items() if name not in ("amount", "currency")}
        amount = value.get("amount")
        if not isinstance(amount, dict):
            amount = {"amount": amount, "currency": value.get("currency")}
        elif "currency" in value and amount.get("currency") != value["currency"]:
            raise ValueError("currency differs from that of amount")
        return rest | {"amount": amount}


class MessageOptions(StrictModel):
    """The fields of a message that are options of its job, as in a request of the API."""

    priority: Priority = 0
    concurrency_key: Identifier | None = None


class ReportMessage(StrictModel):
    """A message that asks for a report. `period`: its day."""

    type: Literal["daily"]
    period: Day


def translated(stage: str, payload: Json) -> Json:
    """Return what a message for a stage becomes: {payload}, {order}, {error: the reason}; {}: it is the payload itself.

    A payment that names an order by its `reference` is matched with that order, in the database. A report names its day
    as `period`.
    """
    form = _form_of(stage, payload)
    if form is None:
        return {}
    try:
        message = form.model_validate(payload)
    except ValidationError as error:
        return {"error": error_sentence(field_errors(error, form))}
    if isinstance(message, ReportMessage):
        return {"payload": {"day": message.period.isoformat()}}
    return {"order": message.model_dump()}


def split_options(stage: Stage | None, payload: Json) -> tuple[Json, Json]:
    """Return the payload of a message without the options in it, and these; {error: the reason} if one is impossible.

    A field that the payload of the stage has itself is no option. One that takes any field has it, and so has that of a
    stage that this code does not know.
    """
    takes_any = stage is None or stage.payload.model_config.get("extra") == "allow"
    own = MessageOptions.model_fields if takes_any or stage is None else stage.payload.model_fields
    given = {name: payload[name] for name in MessageOptions.model_fields if name in payload and name not in own}
    if not given:
        return payload, {}
    try:
        options = MessageOptions.model_validate(given)
    except ValidationError as error:
        return payload, {"error": error_sentence(field_errors(error, MessageOptions))}
    rest = {name: value for name, value in payload.items() if name not in given}
    return rest, options.model_dump(exclude_unset=True, exclude_none=True)


def _form_of(stage: str, payload: Json) -> type[PaymentMessage | ReportMessage] | None:
    if stage == "payment" and "customer" not in payload and payload.keys() & {"reference", "currency"}:
        return PaymentMessage
    return ReportMessage if stage == "report" and payload.keys() & {"type", "period"} else None

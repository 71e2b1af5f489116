"""Removing a person."""

from pathlib import Path
from typing import Any

import click

from lib.cli import messages
from lib.cli.group import BadInput, answer, as_json, here, jobs, parts
from lib.cli.options import ID, TEXT, identifier
from lib.cli.prompts import sure
from lib.errors import Refused


@jobs.command("erase-customer")
@click.option("--id", "customer_id", type=ID, help="The customer.")
@click.option("--flow", type=TEXT, metavar="CORRELATION_ID", help="The customer of this order.")
@click.option("--external-id", type=TEXT, help="The customer with this external id.")
@click.option("--email", type=TEXT, help="The customer without an external id and with this address.")
@click.option("--tenant", "--tenant-id", "tenant_id", type=TEXT, help="Whose customer, without --id (default).")
@click.option("--yes", is_flag=True, help="Do not ask.")
@as_json
def erase_customer(
    *, customer_id: int | None, tenant_id: str | None, yes: bool, as_json: bool, **known: str | None
) -> None:
    """Remove a person's data. Payloads, contexts, errors, history, mails in the outbox. Sums stay."""
    with_ = here("erase-customer")
    given = {name: value for name, value in known.items() if value is not None}
    if len(given) + (customer_id is not None) != 1:
        raise BadInput("say whom: --id, --external-id, --email, or --flow CORRELATION_ID of an order of theirs")
    if customer_id is not None and tenant_id is not None:
        raise BadInput("--tenant is for --flow, --external-id and --email: an id needs none")
    whom = customer_id or _whom(tenant_id or "default", **given)
    sure(f"Erase customer {whom} for good (waiting jobs are cancelled, amounts stay)?", yes=yes)
    erased = with_.erase_customer(whom)
    removed, left = _remove_mails(erased["mails"])
    answer(erased | {"mails_removed": removed}, as_json=as_json, view=messages.erased)
    if left:
        raise BadInput(f"these mails could not be removed, do it by hand: {', '.join(left)}")


def _whom(tenant_id: str, *, flow: str | None = None, **known: str) -> int:
    tenant = identifier(tenant_id, name="--tenant")
    if flow is None:
        return parts().store.find_customer(tenant, **known)
    flow = identifier(flow, name="--flow")
    try:
        return parts().store.find_customer(tenant, correlation_id=flow)
    except Refused:
        raise BadInput(
            f"no job of flow {flow} (tenant {tenant}) names a customer: find out the id and use --id"
        ) from None


def _remove_mails(keys: list[Any]) -> tuple[int, list[str]]:
    """Files of the outbox that are named by these keys: how many are gone, and which could not be removed."""
    folder = parts().settings.giftcard_mail_dir
    removed, left = 0, []
    for key in keys if folder else ():
        file = Path(folder or "") / f"{key}.eml"
        if Path(key).name != key or not file.is_file():
            continue
        try:
            file.unlink()
            removed += 1
        except OSError:
            left.append(str(file))
    return removed, left

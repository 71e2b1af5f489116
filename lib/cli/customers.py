"""erase-customer."""

from pathlib import Path
from typing import Any

import click

from lib.cli import messages
from lib.cli.group import BadInput, app_services, jobs, json_option, output
from lib.cli.models import identifiers
from lib.cli.options import ID, TEXT, yes_option
from lib.cli.prompts import confirm
from lib.cli.services import local_service
from lib.errors import Refused
from lib.mail_address import normalized


@jobs.command("erase-customer")
@click.option("--id", "customer_id", type=ID, help="Id of the customer.")
@click.option("--flow", type=TEXT, metavar="CORRELATION_ID", help="The customer of this order.")
@click.option("--external-id", type=TEXT, help="The customer with this external id.")
@click.option("--email", type=TEXT, help="The customer with this address and without an external id.")
@click.option("--tenant", "--tenant-id", "tenant_id", type=TEXT, help="Tenant of the customer, without --id (default).")
@yes_option
@json_option
def erase_customer(
    *, customer_id: int | None, tenant_id: str | None, yes: bool, as_json: bool, **criteria: str | None
) -> None:
    """Erase a customer's data: payloads, contexts, errors, history, mails in the outbox. Amounts stay."""
    service = local_service("erase-customer")
    typed = {name: value for name, value in criteria.items() if value is not None}
    if len(typed) + (customer_id is not None) != 1:
        raise BadInput("give one of --id, --external-id, --email and --flow CORRELATION_ID")
    if customer_id is not None and tenant_id is not None:
        raise BadInput("--tenant is for --flow, --external-id and --email: an id needs none")
    found = customer_id or _find_customer(tenant_id or "default", **typed)
    confirm(f"Erase customer {found} for good (waiting jobs are cancelled, amounts stay)?", yes=yes)
    erased = service.erase_customer(found)
    removed, remaining = _remove_mails(erased["mails"])
    output(erased | {"mails_removed": removed}, as_json=as_json, view=messages.erased)
    if remaining:
        raise BadInput(f"these mails could not be deleted, delete them by hand: {', '.join(remaining)}")


def _find_customer(tenant_id: str, *, flow: str | None = None, **criteria: str) -> int:
    store = app_services().store
    tenant, *flows = identifiers({"--tenant": tenant_id} | ({} if flow is None else {"--flow": flow}))
    if flow is None:
        return store.find_customer(tenant, **criteria | _as_stored(criteria))
    (flow,) = flows
    try:
        return store.find_customer(tenant, correlation_id=flow)
    except Refused:
        raise BadInput(f"no job of flow {flow} (tenant {tenant}) names a customer: use --id") from None


def _as_stored(criteria: dict[str, str]) -> dict[str, str]:
    """Return the address as orders are stored with it. One that plain SQL wrote may have any other form."""
    try:
        return {name: normalized(text.strip()) for name, text in criteria.items() if name == "email"}
    except ValueError:
        return {}


def _remove_mails(keys: list[Any]) -> tuple[int, list[str]]:
    """Delete the mails of the outbox with these keys. Return how many, and the files that could not be deleted."""
    folder = app_services().settings.giftcard_mail_dir
    removed, remaining = 0, []
    for key in keys if folder else ():
        file = Path(folder or "") / f"{key}.eml"
        if Path(key).name != key or not file.is_file():
            continue
        try:
            file.unlink()
            removed += 1
        except OSError:
            remaining.append(str(file))
    return removed, remaining

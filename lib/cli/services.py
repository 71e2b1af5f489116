"""The services behind the commands: on the database, or over the API of a deployment (--url)."""

import getpass
from collections.abc import Callable
from typing import TYPE_CHECKING, TypeVar

import click
from flask import current_app

from lib.caller import Caller
from lib.cli.group import BadInput, app_services, deployment_url
from lib.operations import Operations
from lib.telemetry.redact import clean
from lib.web.services import Services, batches, decisions, operations, stories

if TYPE_CHECKING:
    from lib.api_client.batches import BatchesClient
    from lib.api_client.bulk import BulkClient
    from lib.api_client.jobs import JobsClient
    from lib.api_client.limits import LimitsClient
    from lib.api_client.orders import OrdersClient
    from lib.api_client.reports import ReportsClient
    from lib.api_client.schedules import SchedulesClient
    from lib.api_client.tokens import TokensClient
    from lib.api_client.transport import Transport
    from lib.api_client.webhooks import WebhooksClient
    from lib.giftcards.decisions import Decisions
    from lib.giftcards.stories import Stories
    from lib.jobs.batches import Batches
    from lib.jobs.bulk import BulkOperations
    from lib.jobs.limits import Limits
    from lib.reports.service import Reports
    from lib.schedules.service import Scheduling
    from lib.tokens.service import Tokens
    from lib.webhooks.service import Endpoints

L = TypeVar("L")
R = TypeVar("R")


def select(local: Callable[[Services], L], remote: "Callable[[Transport], R]") -> L | R:
    """Return the local service, or the client of the deployment that --url names."""
    url, own = deployment_url(), app_services()
    if url is None:
        return local(own)
    from lib.api_client.transport import Transport

    transport = Transport(url, token=own.settings.giftcard_admin_token)
    click.get_current_context().call_on_close(transport.close)
    return remote(transport)


def job_service() -> "Operations | JobsClient":
    """Return the service for jobs, flows, stages and circuits."""
    from lib.api_client.jobs import JobsClient

    return select(lambda own: operations(current_app, caller=_operator()), JobsClient)


def bulk_service() -> "BulkOperations | BulkClient":
    """Return the service for operations on many jobs."""
    from lib.api_client.bulk import BulkClient
    from lib.jobs.bulk import BulkOperations

    return select(lambda own: BulkOperations(own.store, caller=_operator()), BulkClient)


def batch_service() -> "Batches | BatchesClient":
    """Return the service for batches."""
    from lib.api_client.batches import BatchesClient

    return select(lambda own: batches(current_app, caller=_operator()), BatchesClient)


def order_service() -> "Decisions | OrdersClient":
    """Return the service for decisions about orders."""
    from lib.api_client.orders import OrdersClient

    return select(lambda own: decisions(current_app, caller=_operator()), OrdersClient)


def story_service() -> "Stories | OrdersClient":
    """Return the service for finding orders and for their stories."""
    from lib.api_client.orders import OrdersClient

    return select(lambda own: stories(current_app, caller=_operator()), OrdersClient)


def schedule_service() -> "Scheduling | SchedulesClient":
    """Return the service for schedules and precision."""
    from lib.api_client.schedules import SchedulesClient
    from lib.schedules.service import Scheduling

    return select(lambda own: Scheduling(own.store, own.registry, own.settings, caller=_operator()), SchedulesClient)


def report_service() -> "Reports | ReportsClient":
    """Return the service for reports of days."""
    from lib.api_client.reports import ReportsClient
    from lib.reports.service import Reports

    return select(lambda own: Reports(own.store, caller=_operator()), ReportsClient)


def limit_service() -> "Limits | LimitsClient":
    """Return the service for limits."""
    from lib.api_client.limits import LimitsClient
    from lib.jobs.limits import Limits

    return select(lambda own: Limits(own.store, own.registry, caller=_operator()), LimitsClient)


def token_service() -> "Tokens | TokensClient":
    """Return the service for tokens."""
    from lib.api_client.tokens import TokensClient
    from lib.tokens.service import Tokens

    return select(lambda own: Tokens(own.store, caller=_operator()), TokensClient)


def webhook_service() -> "Endpoints | WebhooksClient":
    """Return the service for webhook endpoints."""
    from lib.api_client.webhooks import WebhooksClient
    from lib.webhooks.service import Endpoints

    return select(lambda own: Endpoints(own.store, own.settings, caller=_operator()), WebhooksClient)


def local_service(command: str) -> Operations:
    """Return the service on the database, for a command that the API does not have."""
    if deployment_url() is not None:
        raise BadInput(f"{command} works on the database only: remove --url and GIFTCARD_URL, and set DATABASE_URL")
    return operations(current_app, caller=_operator())


def _operator() -> Caller:
    return Caller(current_user())


def current_user() -> str:
    """Return the name of the operator for the audit and for pauses."""
    try:
        return clean(getpass.getuser(), secrets=[], limit=100) or "operator"
    except (OSError, KeyError, ImportError):  # a container's user may have no name
        return "operator"

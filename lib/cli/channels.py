"""The group test: send one real mail, or one real alert on each channel."""

from typing import Any

import click
from flask.cli import AppGroup

from lib.cli import messages
from lib.cli.group import BadInput, app_services, deployment_url, jobs, json_option, output
from lib.cli.options import TEXT
from lib.config.mail_address import is_mail_address
from lib.config.settings import Settings
from lib.mail_address import is_sendable

Json = dict[str, Any]


@jobs.group("test", cls=AppGroup)
def channels() -> None:
    """Send a real mail or alert, with the settings of this terminal."""


@channels.command("mail")
@click.argument("address", type=TEXT)
@json_option
def mail(address: str, *, as_json: bool) -> None:
    """Send one mail to ADDRESS. Exit code 1 if the mail server does not accept it."""
    settings = _own_settings("test mail")
    if not is_mail_address(address) or not is_sendable(address):
        raise BadInput("ADDRESS must be a mail address, like name@example.com")
    from lib.monitoring.trial import send_mail

    _output(send_mail(settings, address), as_json=as_json)


@channels.command("alert")
@json_option
def alert(*, as_json: bool) -> None:
    """Send one alert on each channel. Exit code 1 if a channel does not accept it."""
    settings = _own_settings("test alert")
    from lib.monitoring.trial import send_alert

    results = send_alert(settings)
    if not results:
        raise BadInput("no channel is set: set GIFTCARD_ALERT_RECIPIENTS, GIFTCARD_ALERT_URL or SENTRY_DSN")
    _output(results, as_json=as_json)


def _own_settings(command: str) -> Settings:
    if deployment_url() is not None:
        raise BadInput(
            f"{command} uses the settings of this terminal, not of a deployment: remove --url and GIFTCARD_URL"
        )
    return app_services().settings


def _output(results: list[Json], *, as_json: bool) -> None:
    output({"results": results}, as_json=as_json, view=messages.sent)
    if not all(result["sent"] for result in results):
        click.get_current_context().exit(1)

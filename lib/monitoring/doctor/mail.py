"""The check of mail: its sender, and whether the server can be reached and logged in to."""

import time

from lib.config.mail_address import sender
from lib.config.settings import Settings
from lib.config.urls import SmtpUrl
from lib.errors import TransientError
from lib.monitoring.doctor.finding import Deployment, Finding, green, red

# For connecting, TLS and login together.
_PROBE_SECONDS = 5.0


def mail(deployment: Deployment) -> Finding:
    """Check MAIL_FROM, and, if the deployment is probed, that the mail server answers and accepts the login."""
    settings = deployment.settings
    wrong = _wrong_sender(settings)
    if wrong:
        return red(
            wrong,
            fix="set it to an address that your mail provider lets you send from, like 'Shop <cards@example.com>'",
        )
    if settings.smtp_url is None:
        return green("no mail server is set")
    if not deployment.probe:
        return green("MAIL_FROM is set; to try the mail server, too: flask jobs doctor")
    failure = _probe(settings.smtp_url)
    if failure:
        return red(failure, fix="correct SMTP_URL and deploy again; to send a mail: flask jobs test mail ADDRESS")
    return green("the mail server answers and accepts the login")


def _wrong_sender(settings: Settings) -> str:
    """Return what is wrong with MAIL_FROM, or nothing. Where mails are written to files, the default is right."""
    is_set = "mail_from" in settings.model_fields_set
    sends = settings.is_production or settings.smtp_url is not None
    if not is_set:
        return "MAIL_FROM is not set: no server accepts mail from giftcards@localhost" if sends else ""
    domain = sender(settings.mail_from).address.rpartition("@")[2]
    return f"MAIL_FROM has the domain {domain}, which no server accepts" if sends and "." not in domain else ""


def _probe(url: SmtpUrl) -> str:
    """Connect, encrypt, log in, and send no message. Return what failed, or nothing."""
    from lib.jobs.smtp import Session

    try:
        with Session(url, until=time.monotonic() + _PROBE_SECONDS):
            return ""
    except TransientError as error:
        return f"SMTP_URL: {error}"
    except Exception as error:  # noqa: BLE001 - its message may repeat the URL
        return f"SMTP_URL cannot be used ({type(error).__name__})"

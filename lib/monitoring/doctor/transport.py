"""Checks of how secrets travel, and of values that were pasted with quotes or line breaks."""

from pathlib import Path

from lib.config.settings import Settings
from lib.monitoring.doctor.environment import over_supabase
from lib.monitoring.doctor.finding import Deployment, FactMissing, Finding, green, red, yellow

_VERIFY = "see docs/deploying.md#verify-the-database"


def transport(deployment: Deployment) -> Finding:
    """Check that the connection to the database is encrypted, and to the right server; and that mails are encrypted."""
    found = _database(deployment.settings)
    smtp = deployment.settings.smtp_url
    if smtp is None or smtp.security != "none":
        return found
    message = "SMTP_URL begins with smtp+insecure://: mails and passwords travel in clear"
    fix = "use smtp:// or smtps:// and deploy again"
    if found.level == "green":
        return yellow(message, fix=fix)
    return (red if found.level == "red" else yellow)(f"{found.message}; {message}", fix=f"{found.fix}; {fix}")


def _database(settings: Settings) -> Finding:
    url = settings.database
    if url is None or over_supabase(settings):
        return green("no call goes through DATABASE_URL")
    name = "DATABASE_URL" if settings.database_url else "POSTGRES_URL"
    if not url.is_remote:
        return green(f"{name} leads to this machine")
    if url.sslmode in ("", "disable", "allow", "prefer"):
        return yellow(f"{name} allows a connection in clear", fix=f"add sslmode=verify-full to it; {_VERIFY}")
    if url.sslmode != "verify-full":
        return yellow(
            f"{name} encrypts, but does not verify which server responds (sslmode={url.sslmode})",
            fix=f"set sslmode=verify-full and sslrootcert in it; {_VERIFY}",
        )
    if url.sslrootcert not in ("", "system") and not Path(url.sslrootcert).is_file():
        return red(f"the file that {name} names as sslrootcert does not exist", fix=f"correct its path; {_VERIFY}")
    return green(f"{name} encrypts, and verifies the server")


def quotes(deployment: Deployment) -> Finding:
    """Report values that were pasted with something around them. Without one there is no such line."""
    stripped = deployment.settings.stripped
    if not stripped:
        raise FactMissing("stripped")
    return yellow(
        f"quotes, spaces or line breaks around the value were removed: {', '.join(stripped)}",
        fix="set each without them and deploy again; printf %s adds no line break, unlike echo",
    )

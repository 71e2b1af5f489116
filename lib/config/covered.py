"""The texts of settings that must never appear in output."""

import re
from collections.abc import Iterable, Mapping
from urllib.parse import unquote

from pydantic import SecretStr

from lib.config import job_secrets
from lib.config.database_url import DatabaseUrl
from lib.config.job_secrets import JobSecret
from lib.config.urls import HttpUrl, SmtpUrl

# Characters. Shorter texts would match others.
_SHORTEST = 8
_CREDENTIALS = re.compile(r"://(.+)@", re.DOTALL)


def covered_texts(values: Iterable[object], secrets_of_jobs: Mapping[str, JobSecret]) -> list[str]:
    """Return all forms of the secrets among the values of settings, and of those of jobs, longest first."""
    found: set[str] = set()
    for value in values:
        if isinstance(value, DatabaseUrl | HttpUrl | SmtpUrl):
            found |= value.secrets
        elif isinstance(value, SecretStr):
            found |= _forms(value.get_secret_value())
    for secret in secrets_of_jobs.values():
        found |= secret.forms()
    return sorted(found, key=len, reverse=True)


def _forms(secret: str) -> set[str]:
    """Return the forms of a secret, of the items of a list, and of the credentials if it is a URL."""
    parts = {secret, *secret.split(",")}
    if match := _CREDENTIALS.search(secret):
        words = {match[1], *match[1].split(":", 1)}
        parts |= words | {unquote(word) for word in words}
    return {form for part in parts if len(part) >= _SHORTEST for form in job_secrets.forms(part)}

"""Read the settings from the environment of the process."""

import os
import re
from collections.abc import Iterator, Mapping
from typing import Any

from pydantic import ValidationError

from lib.config import job_secrets, stage_overrides, vercel
from lib.config.cleaning import bare
from lib.config.contradictions import contradictions
from lib.config.sentences import sentence
from lib.config.settings import Settings
from lib.config.stage_settings import OfStages
from lib.errors import SettingsError

_OWN_NAMES = re.compile(r"GIFTCARD_\w+|MAX_\w+_RETRY_ATTEMPTS")
# Read only by `flask jobs`.
_CLI_VARIABLES = frozenset({"GIFTCARD_URL", "GIFTCARD_DEV_ENV"})


def load() -> Settings:
    """Return the settings of the process's environment.

    Raises:
        SettingsError: variables are invalid; each is named in one sentence that never repeats its value.
    """
    settings, errors = read()
    if errors:
        raise SettingsError(*errors)
    return settings


def read() -> tuple[Settings, list[str]]:
    """Return the settings, with each invalid one left out, and a sentence for each of these: for the doctor."""
    errors: list[str] = []
    overrides, secrets_of_jobs = stage_overrides.read(os.environ, errors), job_secrets.read(os.environ, errors)
    settings = _valid(errors)
    errors += contradictions(settings, overrides)
    settings._stage_overrides = overrides
    settings._job_secrets = secrets_of_jobs
    settings._of_stages = OfStages(os.environ)
    settings._max_duration = vercel.max_duration()
    settings._unknown = tuple(sorted(filter(_is_unknown, os.environ)))
    settings._foreign = tuple(sorted(filter(_is_foreign, os.environ)))
    settings._stripped = tuple(sorted(filter(_is_stripped, os.environ)))
    return settings, errors


def _valid(errors: list[str]) -> Settings:
    """Return the settings of the variables that are valid, and add a sentence for each that is not."""
    left_out: dict[str, Any] = {}
    while True:
        try:
            return Settings(**left_out)
        except ValidationError as error:
            wrong = {str(one["loc"][0]).lower(): one for one in reversed(error.errors(include_input=False))}
        errors += _sentences(wrong)
        # An empty value counts as unset. Without its valid DATABASE_URL, a terminal means no other database.
        left_out |= dict.fromkeys(wrong, "") | ({"postgres_url": ""} if "database_url" in wrong else {})


def _sentences(wrong: Mapping[str, Mapping[str, Any]]) -> Iterator[str]:
    for name, field in Settings.model_fields.items():
        if name in wrong:
            yield f"{name.upper()}: {sentence(wrong[name], field)}"


def _is_unknown(name: str) -> bool:
    looks_ours = _OWN_NAMES.fullmatch(name) is not None and name not in _CLI_VARIABLES
    is_pattern = stage_overrides.VARIABLE.fullmatch(name) or job_secrets.is_known(name, os.environ)
    return looks_ours and name.lower() not in Settings.model_fields and not is_pattern


def _is_foreign(name: str) -> bool:
    return not _OWN_NAMES.fullmatch(name) and name.lower() not in Settings.model_fields


def _is_stripped(name: str) -> bool:
    is_read = name.lower() in Settings.model_fields or (
        stage_overrides.VARIABLE.fullmatch(name) is not None or job_secrets.is_known(name, os.environ)
    )
    value = os.environ[name]
    return is_read and bare(value) not in ("", value)

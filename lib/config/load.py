"""Read the settings from the environment of the process."""

import os
import re

from pydantic import ValidationError

from lib.config import job_secrets, stage_overrides, vercel
from lib.config.parsers import bare
from lib.config.settings import Settings
from lib.config.stage_settings import OfStages
from lib.errors import SettingsError

_OWN_NAMES = re.compile(r"GIFTCARD_\w+|MAX_\w+_RETRY_ATTEMPTS")
# Read only by `flask jobs`.
_CLI_VARIABLES = frozenset({"GIFTCARD_URL"})


def load() -> Settings:
    """Return the settings of the process's environment.

    Raises:
        SettingsError: the first invalid variable, named in one sentence that never repeats its value.
    """
    overrides, secrets_of_jobs = stage_overrides.read(os.environ), job_secrets.read(os.environ)
    try:
        settings = Settings()
    except ValidationError as error:
        first = error.errors(include_input=False)[0]
        variable, reason = str(first["loc"][0]).upper(), first["msg"].removeprefix("Value error, ")
    else:
        if settings.giftcard_inline and settings.is_production:
            raise SettingsError(
                f"GIFTCARD_INLINE requires GIFTCARD_ENV=development or test, but this is {settings.environment}"
            )
        settings._stage_overrides = overrides
        settings._job_secrets = secrets_of_jobs
        settings._of_stages = OfStages(os.environ)
        settings._max_duration = vercel.max_duration()
        settings._unknown = tuple(sorted(filter(_is_unknown, os.environ)))
        settings._foreign = tuple(sorted(filter(_is_foreign, os.environ)))
        settings._stripped = tuple(sorted(filter(_is_stripped, os.environ)))
        return settings
    # Outside of `except`: the error of pydantic holds the values.
    raise SettingsError(f"{variable}: {reason}")


def _is_unknown(name: str) -> bool:
    looks_ours = _OWN_NAMES.fullmatch(name) is not None and name not in _CLI_VARIABLES
    is_pattern = stage_overrides.VARIABLE.fullmatch(name) or job_secrets.is_known(name, os.environ)
    return looks_ours and name.lower() not in Settings.model_fields and not is_pattern


def _is_foreign(name: str) -> bool:
    return not _OWN_NAMES.fullmatch(name) and name.lower() not in Settings.model_fields


def _is_stripped(name: str) -> bool:
    value = os.environ[name]
    return name.lower() in Settings.model_fields and bare(value) not in ("", value)

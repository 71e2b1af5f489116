"""The settings of a stage of your own: a model beside the stage, filled from the environment."""

from collections.abc import Iterator, Mapping
from typing import Any, Self, TypeVar, get_args

from pydantic import SecretStr, ValidationError, model_validator
from pydantic.fields import FieldInfo
from pydantic_settings import BaseSettings, PydanticBaseSettingsSource, SettingsConfigDict

from lib.config import parsers
from lib.config.cleaning import bare
from lib.errors import SettingsError


class StageSettings(BaseSettings):
    """The base of a stage's settings. A field is read from the variable of its name in capitals.

    `model_config = SettingsConfigDict(env_prefix="LOYALTY_")` puts a prefix before the names. Empty values count as
    unset; spaces and quotes around a value are removed. A `SecretStr` never appears in logs and errors.
    """

    model_config = SettingsConfigDict(frozen=True, extra="ignore", hide_input_in_errors=True, enable_decoding=False)

    _strip = model_validator(mode="before")(parsers.stripped)

    @classmethod
    def settings_customise_sources(
        cls,
        settings_cls: type[BaseSettings],  # noqa: ARG003 - the signature of pydantic-settings
        init_settings: PydanticBaseSettingsSource,
        env_settings: PydanticBaseSettingsSource,  # noqa: ARG003
        dotenv_settings: PydanticBaseSettingsSource,  # noqa: ARG003
        file_secret_settings: PydanticBaseSettingsSource,  # noqa: ARG003
    ) -> tuple[PydanticBaseSettingsSource, ...]:
        """Read nothing by itself: `read` passes the variables as they were when the process started."""
        return (init_settings,)

    @classmethod
    def variables(cls) -> dict[str, str]:
        """Return the variable of each field, by the field's name or alias. A prefix does not apply to an alias."""
        prefix = cls.model_config.get("env_prefix") or ""
        keys = {name: _key(name, field) for name, field in cls.model_fields.items()}
        return {key: (f"{prefix}{name}" if key == name else key).upper() for name, key in keys.items()}

    @classmethod
    def read(cls, environ: Mapping[str, str]) -> Self:
        """Return the settings of these variables.

        Raises:
            SettingsError: the name of the first variable that is missing, else a sentence that never repeats a value.
        """
        variables = cls.variables()
        given: dict[str, Any] = {key: environ[variable] for key, variable in variables.items() if variable in environ}
        try:
            return cls(**given)
        except ValidationError as error:
            problem = _problem(error, given, variables)
        except KeyboardInterrupt:
            raise
        except BaseException as error:  # noqa: BLE001 - a validator of the stage's author; its message may hold a value
            problem = f"{', '.join(sorted(variables.values()))} cannot be read: {type(error).__name__}"
        # Outside of `except`: the error of pydantic holds the values.
        raise SettingsError(problem)

    @classmethod
    def secrets_in(cls, environ: Mapping[str, str]) -> Iterator[SecretStr]:
        """Yield the values of the variables that hold secrets, valid or not."""
        variables = cls.variables()
        for name, field in cls.model_fields.items():
            variable = variables[_key(name, field)]
            if variable in environ and _is_secret(field.annotation):
                yield SecretStr(bare(environ[variable]))


OfStage = TypeVar("OfStage", bound=StageSettings)


class OfStages:
    """The settings of all stages, each read once from the environment as it is now."""

    def __init__(self, environ: Mapping[str, str] | None = None) -> None:
        self._environ = dict(environ or {})
        self._read: dict[type[StageSettings], StageSettings | str] = {}

    def __contains__(self, model: type[StageSettings]) -> bool:
        return model in self._read

    def read(self, model: type[StageSettings]) -> None:
        """Read a stage's settings, or what is wrong with them."""
        try:
            self._read[model] = model.read(self._environ)
        except SettingsError as error:
            self._read[model] = str(error)

    def get(self, model: type[OfStage]) -> OfStage:
        """Return settings that were read. Raises SettingsError, as `StageSettings.read` does."""
        found = self._read[model]
        if isinstance(found, model):
            return found
        raise SettingsError(str(found))

    def secrets(self) -> list[SecretStr]:
        """Return the secrets among the variables of all stages read so far."""
        return [secret for model in list(self._read) for secret in model.secrets_in(self._environ)]


def _key(name: str, field: FieldInfo) -> str:
    """Return the name by which pydantic takes the value of a field."""
    alias = field.validation_alias
    return alias if isinstance(alias, str) else name


def _problem(error: ValidationError, given: Mapping[str, str], variables: Mapping[str, str]) -> str:
    found = error.errors(include_input=False, include_url=False, include_context=False)
    absent = [problem["loc"][0] for problem in found if problem["type"] == "missing" and len(problem["loc"]) == 1]
    if absent:
        return variables[str(absent[0])]
    first = found[0]
    message = first["msg"].removeprefix("Value error, ")
    names = [variables[str(first["loc"][0])]] if first["loc"] else sorted(variables.values())
    # A validator of the stage's author may repeat the value.
    if any(bare(value) in message for value in given.values() if bare(value)):
        message = "is invalid" if len(names) == 1 else "are invalid"
    return f"{', '.join(names)}: {message}"


def _is_secret(annotation: Any) -> bool:
    if isinstance(annotation, type):
        return issubclass(annotation, SecretStr)
    return any(map(_is_secret, get_args(annotation)))

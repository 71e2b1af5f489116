"""Requests about tokens."""

from typing import Annotated, Literal

from pydantic import AfterValidator, Field, model_validator

from lib.validation import Id, Identifier, Matching, StrictModel

# What a token may allow. `admin` includes all others, within the token's tenant.
Scope = Literal["orders:write", "orders:read", "jobs:read", "jobs:write", "admin", "metrics"]
_TEN_YEARS = 10 * 366 * 86_400


def _no_duplicates(value: list[str]) -> list[str]:
    return list(dict.fromkeys(value))


TokenName = Annotated[
    str,
    Matching(
        r"^[a-z0-9][a-z0-9._-]{0,62}$",
        "must be a name of up to 63 lower-case letters, digits and . _ -, beginning with a letter or a digit",
    ),
]


class TokenRequest(StrictModel):
    """A token to create. `tenant_id`: the only tenant that it sees and changes; null: all. `expires_seconds`: from now;
    null: never."""

    name: TokenName
    scopes: Annotated[list[Scope], Field(min_length=1, max_length=50), AfterValidator(_no_duplicates)]
    tenant_id: Identifier | None = None
    expires_seconds: Annotated[int, Field(ge=60, le=_TEN_YEARS)] | None = None

    @model_validator(mode="after")
    def _metrics_of_all(self) -> "TokenRequest":
        if self.tenant_id is not None and "metrics" in self.scopes:
            raise ValueError("metrics are those of all tenants: leave out tenant_id or this scope")
        return self


class TokenPage(StrictModel):
    """A page of a list. `older`: the cursor of an earlier page."""

    limit: Annotated[int, Field(ge=1, le=200)] = 50
    older: Id | None = None

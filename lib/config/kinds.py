"""The kinds of values: each setting has one, which cleans and validates it.

A number, a switch or a choice that is none of its kind gets its sentence from `lib.config.sentences`.
"""

import re
from collections.abc import Callable
from ipaddress import IPv4Network, IPv6Network
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Field, SecretStr

from lib.config import parsers, project
from lib.config.cleaning import has_half_quotes, items
from lib.config.database_url import DatabaseUrl
from lib.config.mail_address import sender
from lib.config.rates import Rate, rate
from lib.config.urls import HttpUrl, PublicUrl, SentryDsn, SmtpUrl, SupabaseUrl

# More digits than any limit has; int() and float() accept more spellings, such as 1_000 and digits of other scripts.
_WHOLE = re.compile(r"[+-]?[0-9]{1,20}(?:\.0{1,20})?")
_NUMBER = re.compile(r"[+-]?(?:[0-9]{1,30}(?:\.[0-9]{0,30})?|\.[0-9]{1,30})(?:[eE][+-]?[0-9]{1,2})?")
_FERNET_KEY = re.compile(r"[A-Za-z0-9_+/-]{43}=")
_SUPABASE_KEY = re.compile(r"sb_secret_[A-Za-z0-9_-]{6,}|eyJ[A-Za-z0-9_-]+\.[A-Za-z0-9_-]+\.[A-Za-z0-9_-]+")
_SIGNATURE_KEY = re.compile(r"[A-Za-z0-9_+/=-]{10,200}")
_HOST = re.compile(
    r"(?=.{1,253}\Z)(?:[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?\.)+[a-z][a-z0-9-]{0,61}[a-z0-9]", re.IGNORECASE
)
_NAME = re.compile(r"[A-Za-z0-9_-]{1,100}")
_SHORTEST_LOOKUP_KEY = 32
_LONGEST = 4_096
# Their values are secrets, which would be stored with each tick.
_SECRET_HEADERS = frozenset({"authorization", "proxy-authorization", "cookie", "x-api-key", "x-vercel-oidc-token"})


def _of(pattern: re.Pattern[str]) -> Callable[[Any], Any]:
    """Return a parser that passes on what a number may be; "" is none, so that pydantic refuses it."""
    return lambda value: "" if isinstance(value, str) and not pattern.fullmatch(value) else value


def lower(value: Any) -> Any:
    """Return a text in lower case."""
    return value.lower() if isinstance(value, str) else value


def _text(check: Callable[[str], str]) -> BeforeValidator:
    """Return the validator of a kind of texts; what is no text is a default or is refused by pydantic."""
    return BeforeValidator(lambda value: check(value) if isinstance(value, str) else value)


def _token(value: str) -> str:
    if any(map(str.isspace, value)) or has_half_quotes(value):
        raise ValueError("must be one token without spaces and quotes, and without Bearer before it, like 3q2-7wEj…")
    if len(value) > _LONGEST:
        raise ValueError(f"must be at most {_LONGEST} characters long")
    return value


def _own_token(value: str) -> str:
    # CRON_SECRET keeps its quotes, because Vercel sends them.
    if any(map(str.isspace, value)) or len(value) > _LONGEST:
        raise ValueError(f"must be one token of up to {_LONGEST} characters without spaces, as make secrets writes it")
    return value


def _vendor_token(value: str) -> str:
    if not value.isascii():
        raise ValueError("must be one token of ASCII characters, which a header can hold, like 3q2-7wEj…")
    return _token(value)


def _encryption_keys(value: str) -> str:
    keys = items(value)
    for number, key in enumerate(keys, start=1):
        if not _FERNET_KEY.fullmatch(key):
            raise ValueError(
                f"encryption key {number} is not a Fernet key: 32 bytes in URL-safe base64, which are 44 characters "
                "that end in =, as make secrets writes it; separate keys with commas"
            )
    if not keys:
        raise ValueError("must have at least one Fernet key, as make secrets writes it")
    return ",".join(dict.fromkeys(keys))


def _lookup_key(value: str) -> str:
    if len(value) < _SHORTEST_LOOKUP_KEY:
        raise ValueError(f"must have at least {_SHORTEST_LOOKUP_KEY} characters, as make secrets writes it")
    return value


def _supabase_key(value: str) -> str:
    if value.startswith("sb_publishable_"):
        raise ValueError("must be the secret key, like sb_secret_…: this is the publishable key")
    if not _SUPABASE_KEY.fullmatch(value):
        raise ValueError("must be a key as copied from Supabase, like sb_secret_… or eyJ….….…, without spaces")
    return value


def _signature_key(value: str) -> str:
    if not _SIGNATURE_KEY.fullmatch(value):
        raise ValueError("must be a signature key as copied from Square, like 5taRrLl8JBTL9nBsGQ2xXA")
    return value


def _name(value: str) -> str:
    if not _NAME.fullmatch(value):
        raise ValueError("must be a name of letters, digits, - and _, like preview")
    return value


def _host(value: str) -> str:
    if not _HOST.fullmatch(value):
        raise ValueError("must be a host without a scheme, as Vercel sets it, like cards.example.com")
    return value.lower()


def _header(value: str) -> str:
    if not re.fullmatch(r"[A-Za-z0-9-]{1,100}", value) or value.lower() in _SECRET_HEADERS:
        raise ValueError("must be the name of a header without a secret in it, like x-vercel-execution-id")
    return value


def _slug(value: str) -> str:
    if not re.fullmatch(r"[a-z0-9_-]{1,50}", value):
        raise ValueError("must be the slug of a monitor of Sentry: small letters, digits, - and _, like giftcard-jobs")
    return value


def _prefix(value: str) -> str:
    if not re.fullmatch(r"[!-~]{1,20}", value):
        raise ValueError("must be 1 to 20 printable ASCII characters without spaces, like gc:")
    return value


def _tenant(value: str) -> str:
    if len(value) > 200 or has_half_quotes(value):
        raise ValueError("must be the name of a tenant, of up to 200 characters without quotes, like acme")
    return value


def _folder(value: str) -> str:
    path = Path(value).expanduser()
    if "://" in value or "$" in value or "\\" in value or has_half_quotes(value) or path.is_file():
        raise ValueError("must be the path of a folder, like .local/mails")
    return str(path)


Whole = Annotated[int, BeforeValidator(_of(_WHOLE))]
Number = Annotated[float, BeforeValidator(_of(_NUMBER))]
# Also yes, no, on, off, true and false in any case.
Switch = bool

Environment = Annotated[Literal["production", "preview", "development", "test"] | None, BeforeValidator(lower)]
PaymentProvider = Annotated[Literal["ledger", "http", "square"], BeforeValidator(lower)]
CardProvider = Annotated[Literal["ledger", "http"], BeforeValidator(lower)]
RateOfStarts = Annotated[Rate, BeforeValidator(rate)]
Wake = Annotated[Literal["off", "url", "pg_net"], BeforeValidator(lower)]
LogLevel = Annotated[Literal["debug", "info", "warning", "error"], BeforeValidator(lower)]
Name = Annotated[str | None, _text(_name)]
Host = Annotated[str | None, _text(_host)]
Header = Annotated[str, _text(_header)]
Slug = Annotated[str, _text(_slug)]
Prefix = Annotated[str, _text(_prefix)]
Tenant = Annotated[str, _text(_tenant)]
Locale = Annotated[str, _text(parsers.locale)]
Folder = Annotated[str | None, _text(_folder)]
Templates = Annotated[Path | None, BeforeValidator(project.folder)]
SquareId = Annotated[str | None, _text(parsers.square_id)]
# The text of a From header.
MailSender = Annotated[str, _text(lambda value: sender(value).header())]

OwnToken = Annotated[SecretStr | None, _text(_own_token)]
VendorToken = Annotated[SecretStr | None, _text(_vendor_token)]
EncryptionKeys = Annotated[SecretStr | None, _text(_encryption_keys)]
LookupKey = Annotated[SecretStr | None, _text(_lookup_key)]
SupabaseKey = Annotated[SecretStr | None, _text(_supabase_key)]
SignatureKey = Annotated[SecretStr | None, _text(_signature_key)]

Database = Annotated[DatabaseUrl | None, BeforeValidator(parsers.url_of(DatabaseUrl))]
Service = Annotated[HttpUrl | None, BeforeValidator(parsers.url_of(HttpUrl))]
Public = Annotated[PublicUrl | None, BeforeValidator(parsers.url_of(PublicUrl))]
Supabase = Annotated[SupabaseUrl | None, BeforeValidator(parsers.url_of(SupabaseUrl))]
MailServer = Annotated[SmtpUrl | None, BeforeValidator(parsers.url_of(SmtpUrl))]
Dsn = Annotated[SentryDsn | None, BeforeValidator(parsers.url_of(SentryDsn))]

# Lists, whose items are separated by commas.
Seconds = Annotated[Number, Field(ge=0, le=86_400)]
Delays = Annotated[tuple[Seconds, ...], BeforeValidator(parsers.split), Field(min_length=1)]
Networks = Annotated[tuple[IPv4Network | IPv6Network, ...], BeforeValidator(parsers.networks)]
Recipients = Annotated[tuple[str, ...], BeforeValidator(parsers.recipients), Field(repr=False)]
AlertRecipients = Annotated[tuple[str, ...], BeforeValidator(parsers.alert_recipients), Field(repr=False)]
LeastAmounts = Annotated[tuple[tuple[str, int], ...], BeforeValidator(parsers.least_amounts)]
TenantWeights = Annotated[tuple[tuple[str, int], ...], BeforeValidator(parsers.tenant_weights)]
PgmqQueues = Annotated[tuple[parsers.PgmqQueue, ...], BeforeValidator(parsers.pgmq_queues)]
Packages = Annotated[tuple[str, ...], BeforeValidator(project.packages)]
OrderFlow = Annotated[tuple[str, ...], BeforeValidator(project.order_flow)]
SquareIds = Annotated[tuple[str, ...], BeforeValidator(parsers.square_ids)]

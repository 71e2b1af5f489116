"""Mail addresses: what is accepted, and the one form in which headers and mail servers get it."""

import re

MAX_ADDRESS_LENGTH = 254  # RFC 5321, in bytes
MAX_LOCAL_LENGTH = 64

# A local part without quotation marks, in ASCII or (SMTPUTF8) any other script. Its pattern has what it may not hold:
# a class of nearly all characters takes milliseconds to compile.
_ATOM = r'[^\x00-\x20"(),.:;<>@\[\\\]\x7f]+'
_LOCAL = re.compile(rf"{_ATOM}(?:\.{_ATOM})*")
_LABEL = "[A-Za-z0-9](?:[A-Za-z0-9-]{0,61}[A-Za-z0-9])?"
_DOMAIN = re.compile(rf"{_LABEL}(?:\.{_LABEL})*")


def normalized(text: str) -> str:
    """Return a recipient's address as it is stored: its domain in lower case and in its own script, both parts in NFC.

    `wire_address` of it never fails.

    Raises:
        ValueError: it is no address that mail from the internet reaches, or one that no header can hold. The message
            is a predicate ("is not a valid e-mail address") and repeats nothing of it.
    """
    from email_validator import EmailNotValidError, validate_email  # slow to load

    try:
        found = validate_email(text, check_deliverability=False).normalized
    except EmailNotValidError:
        # The library's message can repeat parts of the address, and messages end up in logs.
        raise ValueError("is not a valid e-mail address") from None
    wire_address(found)
    return found


def wire_address(address: str) -> str:
    """Return an address as headers and mail servers get it: the local part as it is, the domain in ASCII.

    The domain may be one that only a private server knows, such as localhost.

    Raises:
        ValueError: no header can hold it, or it is too long. The message is a predicate, as in `normalized`.
    """
    local, _, domain = address.rpartition("@")
    if "=?" in local:
        # RFC 2047 words have no place in addresses, but mail programs decode them there: to the address of another.
        raise ValueError("has =? before the @, which mail programs decode")
    if len(local.encode()) > MAX_LOCAL_LENGTH:
        raise ValueError(f"has more than {MAX_LOCAL_LENGTH} bytes before the @")
    if not domain.isascii():
        domain = _ascii(domain)
    found = f"{local}@{domain}"
    # isprintable: no space and no control, in any script.
    if not (_LOCAL.fullmatch(local) and local.isprintable() and _DOMAIN.fullmatch(domain)):
        raise ValueError("is not a valid e-mail address")
    if len(found.encode()) > MAX_ADDRESS_LENGTH:
        raise ValueError(f"has more than {MAX_ADDRESS_LENGTH} bytes")
    return found


def is_sendable(address: str) -> bool:
    """Return whether headers and mail servers can get this address as it is."""
    try:
        wire_address(address)
    except ValueError:
        return False
    return True


def _ascii(domain: str) -> str:
    from email_validator import EmailNotValidError, validate_email  # slow to load

    try:
        return validate_email(f"postmaster@{domain}", check_deliverability=False).ascii_domain
    except EmailNotValidError:
        raise ValueError("is not a valid e-mail address") from None

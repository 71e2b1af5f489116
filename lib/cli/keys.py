"""The group of encryption keys: which are in use, and their rotation."""

from collections.abc import Iterator
from typing import Any

import click
from flask.cli import with_appcontext

from lib.cli.group import Failed, app_services, jobs, json_option, output
from lib.cli.options import yes_option
from lib.cli.prompts import confirm, progress_bar
from lib.cli.services import current_user, local_service
from lib.cli.tables import Part, Table, count
from lib.errors import StoreError
from lib.giftcards.key_rotation import KeyRotation, to_rotate

Json = dict[str, Any]

_NAMES = {"effect": "effects", "card": "cards", "endpoint": "webhook endpoints"}


@jobs.group()
@with_appcontext
def keys() -> None:
    """Show and rotate the encryption keys (GIFTCARD_ENCRYPTION_KEYS)."""


@keys.command()
@json_option
def status(*, as_json: bool) -> None:
    """Count the stored texts under each key. Keys are shown by position and id, never by content."""
    output(_rotation("keys status").status(), as_json=as_json, view=_status_view)


@keys.command()
@click.option("--batch", type=click.IntRange(1, 1000), default=200, show_default=True, help="Rows per step.")
@yes_option
@json_option
def rotate(*, batch: int, yes: bool, as_json: bool) -> None:
    """Re-encrypt everything under the first key, in small steps while ticks run. Safe to interrupt and repeat."""
    rotation = _rotation("keys rotate")
    found = rotation.status()
    total = to_rotate(found)
    if total:
        confirm(
            f"Re-encrypt {count(total, 'text')} under key 1 ({found['keys'][0]['id']})? "
            "Every deployment must have this key.",
            yes=yes,
        )
    done = 0

    def on_progress(rows: int) -> None:
        nonlocal done
        done = rows
        show(rows)

    try:
        with progress_bar("Re-encrypting", total=total) as show:
            outcome = rotation.rotate(batch=batch, progress=on_progress)
    except (KeyboardInterrupt, StoreError) as error:
        reason = str(error) or "interrupted"
        raise Failed(f"{reason}; {count(done, 'row')} done before that: repeat the command for the rest") from error
    output(outcome, as_json=as_json, view=_rotated_view)
    if outcome["failed"]:
        raise Failed(f"{count(outcome['failed'], 'text')} could not be re-encrypted: see docs/runbook.md#rotate-keys")


def _rotation(command: str) -> KeyRotation:
    local_service(command)
    own = app_services()
    return KeyRotation(own.store, own.settings, by=current_user())


def _rotated_view(outcome: Json) -> Iterator[Part]:
    done = ", ".join(f"{name}: {outcome['rotated'][kind]:,}" for kind, name in _NAMES.items())
    yield f"re-encrypted under key 1: {done}"
    for row in outcome["problems"]:
        yield f"{row['kind']} {row['id']}: {row['problem']}"
    if outcome["failed"] > len(outcome["problems"]):
        yield f"and {outcome['failed'] - len(outcome['problems']):,} more"
    yield from _status_view(outcome)


def _status_view(found: Json) -> Iterator[Part]:
    rows = [(key["position"], key["id"], key["texts"]) for key in found["keys"]]
    rows += [("missing", key["id"], key["texts"]) for key in found["unknown"]]
    if any(found["former"].values()):
        rows.append(("any", "former form", found["former"]))
    yield Table(
        "Texts by key",
        ("key", "id", *_NAMES.values()),
        [(position, key_id, *(texts[kind] for kind in _NAMES)) for position, key_id, texts in rows],
    )
    yield from _advice(found)


def _advice(found: Json) -> Iterator[str]:
    left = to_rotate(found) - found.get("failed", 0)
    if left:
        yield f"{count(left, 'text is', 'texts are')} not under key 1: run flask jobs keys rotate"
    removable = [f"key {key['position']} ({key['id']})" for key in found["keys"] if key["removable"]]
    if removable:
        yield (
            f"nothing is under {', '.join(removable)}. When no deployment that has another key first runs, rotate "
            "again; then remove it from GIFTCARD_ENCRYPTION_KEYS. Keep a copy as long as you keep backups from before"
        )
    elif len(found["keys"]) > 1:
        yield "no older key may go yet"

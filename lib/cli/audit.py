"""audit."""

import json
import shlex
from collections.abc import Iterator
from typing import Any

from lib.api_client.audit import AuditClient
from lib.cli.group import command_line, jobs, json_option, output
from lib.cli.known import require
from lib.cli.options import build, option_name, options_of, typed_fields
from lib.cli.services import select
from lib.cli.tables import Part, Table, moment
from lib.jobs.audit import AuditPage

Json = dict[str, Any]

_HELP = {
    "by": "Name of a token, a user of the command line, or a database role.",
    "action": "Only this action, like requeue.",
    "subject": "Only this subject, like 'job 7'.",
    "since": "At this time or later, like 2026-01-31T12:00:00Z.",
    "tenant_id": "Only this tenant.",
    "limit": "Maximum number of rows, up to 200 (default: 50).",
    "older": "Page after this id, from the page before.",
}


@jobs.command()
@options_of(AuditPage, help_texts=_HELP)
@json_option
def audit(*, as_json: bool, **options: Any) -> None:
    """List what operators did, the newest first, a page at a time."""
    page = build(AuditPage, typed_fields(AuditPage, options))
    found = select(lambda own: own.store, AuditClient).list_audit(**page.model_dump(mode="json"))
    if not found["acts"] and page.older is None:
        require("action", page.action, option="--action")
    output(found, as_json=as_json, view=lambda found: _view(found, page))


def _view(found: Json, page: AuditPage) -> Iterator[Part]:
    if not found["acts"]:
        yield "No act matches."
        return
    rows = [
        (
            *(moment(act["at"]), act["by"], act["action"], act["subject"], act["tenant_id"]),
            json.dumps(act["details"], ensure_ascii=False) if act["details"] else "",
        )
        for act in found["acts"]
    ]
    yield Table("Acts, the newest first", ("at", "by", "action", "subject", "tenant", "details"), rows)
    if found["older"]:
        words = command_line("audit")
        for name, value in page.model_dump(mode="json", exclude_none=True, exclude={"older"}).items():
            words += [option_name(name), str(value)]
        yield "older: " + shlex.join([*words, "--older", str(found["older"])])

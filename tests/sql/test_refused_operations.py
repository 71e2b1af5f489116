"""What is no operation is refused, with the field at fault, and nothing is created."""

from typing import Any

import pytest

from tests.support.bulk import create
from tests.support.factory import World

Row = dict[str, Any]


@pytest.mark.parametrize(
    ("arguments", "field", "text"),
    [
        ({"action": "delete"}, "action", "action must be requeue"),
        ({"filter": {"status": "completed"}}, "filter.status", "only jobs in error or cancelled"),
        ({"action": "cancel", "filter": {"status": "completed"}}, "filter.status", "only jobs that are queued"),
        ({"filter": {"id": "1"}}, "id", "there is no filter id"),
        ({"filter": {"stage": 7}}, "stage", "the filter stage must be text"),
        ({"filter": []}, "filter", "a filter must be an object"),
        ({"filter": {"created_after": "1; drop table"}}, "created_after", "must be a time with its zone"),
        ({"filter": {"stage": "email"}, "job_ids": (1,)}, "job_ids", "exclude each other"),
        ({"job_ids": ()}, "job_ids", "job_ids must be 1 to 1000 ids"),
        ({"job_ids": tuple(range(1001))}, "job_ids", "job_ids must be 1 to 1000 ids"),
        ({"job_ids": (None,)}, "job_ids", "job_ids must be 1 to 1000 ids"),
        ({"reason": " "}, "reason", "reason is required"),
        ({"reason": None}, "reason", "reason is required"),
        ({"action": "requeue_slowly", "per_minute": 0}, "per_minute", "per_minute must be between"),
        ({"action": "requeue_slowly", "per_minute": float("nan")}, "per_minute", "per_minute must be between"),
        ({"filter": {"tenant_id": "a"}, "tenant_id": "b"}, "filter.tenant_id", "another tenant than yours"),
    ],
)
def test_what_is_no_operation_is_refused(world: World, arguments: Row, field: str, text: str) -> None:
    with pytest.raises(Exception, match=text) as refused:
        create(world, **arguments)
    assert refused.value.diag.message_detail == field  # type: ignore[attr-defined]
    assert world.rows("select * from giftcard_operations") == []

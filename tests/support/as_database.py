"""Webhook jobs, as only the database enqueues them."""

from collections.abc import Callable
from typing import Any

from psycopg import sql
from psycopg.types.json import Jsonb


def add_webhook(execute: Callable[..., list[Any]], **columns: Any) -> int:
    """A webhook job with these columns; its id. `execute` takes a statement and its values, and returns rows."""
    row = {"stage": "webhook", "circuit": "webhook", "source": "app", "payload": {}} | columns
    values = [Jsonb(value) if isinstance(value, dict) else value for value in row.values()]
    statement = sql.SQL(
        "insert into public.giftcard_jobs ({}) select {} where set_config('giftcard.writer', 'webhook', true) <> ''"
        " returning id"
    ).format(sql.SQL(", ").join(map(sql.Identifier, row)), sql.SQL(", ").join([sql.Placeholder()] * len(row)))
    (made,) = execute(statement.as_string(), *values)
    execute("select set_config('giftcard.writer', '', true)")  # where one transaction is all of the test
    job_id: int = made["id"]
    return job_id

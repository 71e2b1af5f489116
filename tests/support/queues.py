"""Queues of pgmq, with the extension's own SQL: what Supabase calls Queues."""

from importlib.resources import files
from typing import Any

import psycopg
from psycopg import sql
from psycopg.types.json import Jsonb

NOTHING = {"moved": 0, "repeated": 0, "conflicts": 0, "refused": 0}


class Queues:
    """pgmq in one database, installed as plain SQL."""

    def __init__(self, connection: psycopg.Connection[Any]) -> None:
        self._connection = connection
        connection.execute((files("pgmq") / "sql/pgmq.sql").read_bytes())

    def create(self, queue: str, *messages: Any) -> list[int]:
        """A queue, with these messages in it; their numbers."""
        self._connection.execute("select pgmq.create(%s)", [queue])
        return [self.send(queue, message) for message in messages]

    def send(self, queue: str, message: Any, *, delay: int = 0) -> int:
        """Puts a message into a queue; its number. `message` None: SQL's null."""
        sent = None if message is None else Jsonb(message)
        row = self._connection.execute(
            "select * from pgmq.send(%s, %s::jsonb, %s::integer)", [queue, sent, delay]
        ).fetchone()
        assert row
        number: int = row[0]
        return number

    def waiting(self, queue: str) -> list[int]:
        """The numbers of messages that are in the queue."""
        return self._numbers(f"q_{queue}")

    def archived(self, queue: str) -> list[int]:
        """The numbers of messages that have left it."""
        return self._numbers(f"a_{queue}")

    def _numbers(self, table: str) -> list[int]:
        statement = sql.SQL("select msg_id from {} order by msg_id").format(sql.Identifier("pgmq", table))
        return [number for (number,) in self._connection.execute(statement)]


def import_messages(world: Any, jobs: dict[str, dict[str, Any]], *, limit: int = 100) -> dict[str, Any]:
    """Read and import in SQL alone. `jobs`: by queue, what its jobs have in common, such as their stage."""
    read = world.ask("read_pgmq", queues=tuple(jobs), limit=limit)
    batches = {
        queue: [message | {"job": message["job"] | jobs[queue]} for message in found["messages"]]
        for queue, found in read.items()
        if found.get("messages")
    }
    done = world.call("import_pgmq", batches=batches) if batches else {}
    problems = {queue: {"problem": found["problem"]} for queue, found in read.items() if "problem" in found}
    return {queue: NOTHING | problems.get(queue, {}) | done.get(queue, {}) for queue in jobs}

"""Works off the queue of the stand-in for pg_net, as its worker does: one batch, and what became of each call."""

from typing import Any

import httpx
import psycopg

_SAVE = """
    insert into net._http_response (id, status_code, content_type, headers, content, timed_out, error_msg)
    values (%s, %s, %s, %s, %s, %s, %s)
"""


def work_off(connection: psycopg.Connection[Any]) -> int:
    """Does all calls that wait; how many there were."""
    calls = connection.execute("delete from net.http_request_queue returning id, method, url, headers, body,"
                               " timeout_milliseconds").fetchall()  # fmt: skip
    for number, method, url, headers, body, timeout in calls:
        connection.execute(_SAVE, (number, *_answer(method, url, headers, body, timeout / 1000)))
    return len(calls)


def _answer(method: str, url: str, headers: dict[str, str], body: bytes, timeout: float) -> tuple[Any, ...]:
    try:
        said = httpx.request(method, url, headers=headers, content=body, timeout=timeout)
    except httpx.TimeoutException:
        return None, None, None, None, True, "Timeout was reached"
    except httpx.HTTPError as error:
        return None, None, None, None, False, str(error)
    return said.status_code, said.headers.get("content-type"), None, said.text, False, None

"""What two errors have in common is their kind: one function takes out what differs from job to job."""

import pytest

from tests.support.factory import World

SAME = {
    "TransientError: HTTP 500 from [host]": [
        "TransientError: HTTP 500 from api.example.com",
        "TransientError: HTTP 500 from 10.1.2.3:8080",
        "TransientError: HTTP 500 from localhost:8443",
        "TransientError: HTTP 500 from [2001:db8::7]:443",
        "TransientError: HTTP 500 from smtp.shop.co.uk",
    ],
    "PermanentError: order [id] does not exist": [
        "PermanentError: order order-4711 does not exist",
        "PermanentError: order 5f0c1e9e-7a5b-4c5e-9d8e-0123456789ab does not exist",
        "PermanentError: order ch_3Nk2x does not exist",
    ],
    "TtrExceeded: it took longer than [n]": [
        "TtrExceeded: it took longer than 60 s".replace("60 s", "60"),
        "TtrExceeded: it took longer than 5.25",
        "TtrExceeded: it took longer than 31ms",
        "TtrExceeded:  it took\nlonger than 1,000 ",
    ],
    'Refused: "…" is no currency': [
        "Refused: 'EURO' is no currency",
        'Refused: "Ärger, 7" is no currency',
        "Refused: `x` is no currency",
    ],
    "PermanentError: [email] is refused": [
        "PermanentError: kate@example.com is refused",
        "PermanentError: [email] is refused",
    ],
    "E: not before [time]": [
        "E: not before 2026-01-31T12:00:00.5+01:00",
        "E: not before 2026-01-31",
        "E: not before 12:00:01",
    ],
    "E: GET [url] failed": ["E: GET https://shop.example/7?x=1 failed", "E: GET http://10.0.0.1:80/ failed"],
    "no error text": ["", " ", None],
}
# Each is a kind of its own.
DIFFERENT = [
    "TransientError: HTTP 500",
    "TransientError: HTTP 503",
    "TransientError: SMTP 421",
    "Refused: SQLSTATE 40P01",
    "PermanentError: payload: customer.email is not a valid e-mail address",
    "PermanentError: payload: amount.amount is required",
    "psycopg.errors.UniqueViolation: it's there already",
]


# A code of three digits after one of these words is that of an answer.
BEFORE_CODES = [
    "the shop answered", "the shop answered with", "the shop responded", "the shop responded with", "status", "Status",
    "with status code", "HTTP", "HTTP/2", "HTTP/1.1", "code", "code=", "status:", "status: ", "status=", "http: ",
]  # fmt: skip


@pytest.mark.parametrize("before", BEFORE_CODES)
def test_the_code_of_an_answer_is_the_kind(world: World, before: str) -> None:
    before = before if before.endswith(("=", ":", " ")) else f"{before} "

    def kind(rest: str) -> str:
        (row,) = world.rows("select giftcard_error_kind(%s) as kind", f"TransientError: {before}{rest}")
        return str(row["kind"])

    for rest, kept in (("410", "410"), ("503", "503"), ("503: try 7 again", "503: try [n] again"), ("100.", "100.")):
        assert kind(rest).endswith(kept)


@pytest.mark.parametrize("text", ["waited 410", "the shop answered 4711", "the shop answered 600 things", "code 41"])
def test_other_numbers_are_no_codes(world: World, text: str) -> None:
    assert "[n]" in world.rows("select giftcard_error_kind(%s) as kind", text)[0]["kind"]


@pytest.mark.parametrize("kind", SAME)
def test_what_differs_from_job_to_job_is_taken_out(world: World, kind: str) -> None:
    found = [world.rows("select giftcard_error_kind(%s) as kind", text)[0]["kind"] for text in SAME[kind]]
    assert found == [kind] * len(found)


def test_what_makes_the_kind_stays(world: World) -> None:
    assert [world.rows("select giftcard_error_kind(%s) as kind", text)[0]["kind"] for text in DIFFERENT] == DIFFERENT


def test_a_kind_is_its_own_kind_and_short(world: World) -> None:
    for kind in (*SAME, *DIFFERENT):
        assert world.rows("select giftcard_error_kind(%s) as kind", kind)[0]["kind"] == kind
    for long in ("x1 " * 5000, "'" * 5000, "a." * 5000, "1:" * 5000, "[" * 5000):
        assert len(world.rows("select giftcard_error_kind(%s) as kind", long)[0]["kind"]) <= 200

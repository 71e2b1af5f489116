"""The verifier of Square's own library agrees with ours, on whatever is signed and on what is altered."""

import base64
import hashlib
import hmac

from hypothesis import given
from hypothesis import strategies as st
from square.utils.webhooks_helper import verify_signature

from lib.giftcards.square import is_signed

text = st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=50)
signatures = st.text(st.characters(max_codepoint=127), max_size=60)


def agreed(signature: str, *, key: str, url: str, body: str) -> bool:
    """What both verifiers find."""
    ours = is_signed(signature, key=key, url=url, body=body.encode())
    theirs = verify_signature(request_body=body, signature_header=signature, signature_key=key, notification_url=url)
    assert ours == theirs
    return ours


def signed(key: str, url: str, body: str) -> str:
    return base64.b64encode(hmac.new(key.encode(), (url + body).encode(), hashlib.sha256).digest()).decode()


@given(key=text, url=text, body=text)
def test_what_is_signed_is_accepted_by_both(key: str, url: str, body: str) -> None:
    assert agreed(signed(key, url, body), key=key, url=url, body=body)


@given(key=text, url=text, body=text, other=text, signature=signatures, data=st.data())
def test_what_is_altered_is_refused_by_both(
    key: str, url: str, body: str, other: str, signature: str, data: st.DataObject
) -> None:
    true = signed(key, url, body)
    place = data.draw(st.integers(0, len(true) - 1))
    altered = true[:place] + data.draw(st.sampled_from("AZaz09+/=").filter(lambda c: c != true[place]))
    for wrong in (altered + true[place + 1 :], altered, signature, true + "=", f" {true}", ""):
        assert agreed(wrong, key=key, url=url, body=body) == (wrong == true)
    for changed in ({"key": key + other}, {"url": url + other}, {"body": other + body}):
        assert not agreed(true, **({"key": key, "url": url, "body": body} | changed))

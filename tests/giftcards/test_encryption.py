"""Texts bound to their places: what is encrypted for one place and purpose is read there, and nowhere else."""

import base64
import hashlib
import hmac
import json
import re

import pytest
from cryptography.fernet import Fernet
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDF
from hypothesis import assume, given
from hypothesis import strategies as st

from lib.encryption import Cipher, Signer, _derived, is_bound
from lib.errors import PermanentError, TransientError
from tests.support.ciphertexts import as_before

KEY = Fernet.generate_key().decode()
NUMBERS = Cipher([KEY], purpose="card number")
SECRETS = Cipher([KEY], purpose="webhook secret")
PLACE = ("acme", "order-1")

names = st.text(max_size=30)
places = st.tuples(names, names)


@given(names, places)
def test_what_is_encrypted_for_a_place_is_read_there(text: str, place: tuple[str, str]) -> None:
    assert NUMBERS.decrypt(NUMBERS.encrypt(text, place), place) == text


@given(places, places)
def test_what_is_encrypted_for_one_place_is_refused_in_any_other(one: tuple[str, str], other: tuple[str, str]) -> None:
    assume(one != other)
    with pytest.raises(PermanentError, match="is that of another row"):
        NUMBERS.decrypt(NUMBERS.encrypt("1", one), other)


@pytest.mark.parametrize("other", [("acm", "eorder-1"), ("acme", 'order-1"'), ('acme", "order-1', ""), ("acme", "")])
def test_places_that_are_alike_when_joined_are_not_the_same(other: tuple[str, str]) -> None:
    with pytest.raises(PermanentError):
        NUMBERS.decrypt(NUMBERS.encrypt("1", PLACE), other)


@pytest.mark.parametrize(("one", "other"), [(NUMBERS, SECRETS), (SECRETS, NUMBERS)])
def test_what_is_encrypted_for_one_purpose_is_refused_for_another(one: Cipher, other: Cipher) -> None:
    with pytest.raises(PermanentError):
        other.decrypt(one.encrypt("1", PLACE), PLACE)


@given(st.integers(min_value=0), st.integers(1, 255))
def test_a_changed_bit_anywhere_is_refused(where: int, change: int) -> None:
    version, key_id, content = NUMBERS.encrypt("9900123412345678", PLACE).split(".")
    changed = bytearray(base64.urlsafe_b64decode(content))
    changed[where % len(changed)] ^= change
    with pytest.raises(PermanentError):
        NUMBERS.decrypt(f"{version}.{key_id}.{base64.urlsafe_b64encode(changed).decode()}", PLACE)


@pytest.mark.parametrize("content", ["", "A", "AAAA", "A" * 16, "é", "AAAA.AAAA", "A" * 1000])
def test_garbage_under_a_known_key_is_refused(content: str) -> None:
    with pytest.raises(PermanentError):
        NUMBERS.decrypt(f"v2.{NUMBERS.key_ids[0]}.{content}", PLACE)


def test_the_form_is_aes_gcm_under_a_key_by_hkdf_with_the_place_as_authenticated_data() -> None:
    """Computed here once more, without our code: other tools can read what is stored."""
    version, key_id, content = NUMBERS.encrypt("9900123412345678", PLACE).split(".")
    decoded = base64.urlsafe_b64decode(content)
    data = json.dumps(["v2", "card number", *PLACE]).encode()
    aead = AESGCM(_hkdf(b"giftcard card number v2"))
    assert aead.decrypt(decoded[:12], decoded[12:], data) == b"9900123412345678"
    assert (version, key_id) == ("v2", _hkdf(b"giftcard key id v2")[:6].hex())


def _hkdf(info: bytes) -> bytes:
    """RFC 5869 for one block: the key of the tests, no salt."""
    extracted = hmac.digest(bytes(32), base64.urlsafe_b64decode(KEY), hashlib.sha256)
    return hmac.digest(extracted, info + b"\x01", hashlib.sha256)


def test_no_two_texts_are_alike_and_none_shows_its_key_or_content() -> None:
    texts = {NUMBERS.encrypt("9900123412345678", PLACE) for _ in range(100)}
    assert len(texts) == 100
    assert all(re.fullmatch(r"v2\.[0-9a-f]{12}\.[A-Za-z0-9_-]+={0,2}", text) for text in texts)
    assert base64.urlsafe_b64decode(KEY)[:6].hex() != NUMBERS.key_ids[0]


def test_keys_are_told_apart_by_their_ids_in_the_order_of_the_setting() -> None:
    other = Fernet.generate_key().decode()
    both = Cipher([other, KEY, other], purpose="webhook secret")
    assert both.key_ids == (both.key_ids[0], NUMBERS.key_ids[0], both.key_ids[0])
    assert both.encrypt("1", PLACE).startswith(f"v2.{both.key_ids[0]}.")
    assert both.decrypt(SECRETS.encrypt("1", PLACE), PLACE) == "1"
    with pytest.raises(TransientError, match="no encryption key decrypts the webhook secret"):
        SECRETS.decrypt(both.encrypt("1", PLACE), PLACE)


def test_the_former_form_is_read_under_any_key_and_is_bound_to_nothing() -> None:
    both = Cipher([Fernet.generate_key().decode(), KEY], purpose="webhook secret")
    former = as_before("whsec_1", KEY)
    assert [both.decrypt(former, place) for place in (PLACE, ("", ""))] == ["whsec_1"] * 2
    assert (is_bound(former), is_bound(both.encrypt("1", PLACE))) == (False, True)


# Signatures, and the keys of both


@given(st.binary(max_size=40))
def test_signature_is_accepted_for_its_content_purpose_and_keys_only(content: bytes) -> None:
    other = Fernet.generate_key().decode()
    pages, signature = Signer([KEY], purpose="card page"), Signer([KEY], purpose="card page").sign(content)
    assert len(signature) == 16
    assert pages.accepts(content, signature)
    assert Signer([other, KEY], purpose="card page").accepts(content, signature)
    for wrong in (Signer([other], purpose="card page"), Signer([KEY], purpose="card number")):
        assert not wrong.accepts(content, signature)
    assert not pages.accepts(content + b"x", signature)
    for cut in (b"", signature[:-1], signature + b"x", bytes(16)):
        assert not pages.accepts(content, cut)


@given(st.binary(min_size=32, max_size=32), st.text(max_size=30), st.integers(1, 32))
def test_keys_are_derived_as_by_the_library(master: bytes, use: str, length: int) -> None:
    info = f"giftcard {use} v2".encode()
    assert _derived(master, use, length=length) == HKDF(SHA256(), length, salt=None, info=info).derive(master)

"""Card numbers and the vault that keeps them."""

import random
import traceback

import pytest
from cryptography.fernet import Fernet
from hypothesis import given
from hypothesis import strategies as st

from lib.config.settings import Settings
from lib.errors import TransientError
from lib.giftcards.cards import ISSUER_PREFIX, SealedNumber, Vault, has_valid_check_digit, new_number, vault_of

LOOKUP_KEY = "k" * 32
numbers = st.integers(0, 2**32).map(lambda seed: new_number(random.Random(seed)))


def _vault(*keys: str, lookup_key: str = LOOKUP_KEY) -> Vault:
    return Vault(keys or (_key(),), lookup_key=lookup_key)


def _key() -> str:
    return Fernet.generate_key().decode()


@given(numbers)
def test_a_new_number_has_16_digits_with_prefix_and_check_digit(number: str) -> None:
    assert len(number) == 16
    assert number.isdigit()
    assert number.startswith(ISSUER_PREFIX)
    assert has_valid_check_digit(number)


@given(numbers, st.integers(0, 15), st.integers(1, 9))
def test_any_single_wrong_digit_is_detected(number: str, place: int, shift: int) -> None:
    wrong = str((int(number[place]) + shift) % 10)
    assert not has_valid_check_digit(number[:place] + wrong + number[place + 1 :])


def test_known_numbers_are_judged_as_the_world_judges_them() -> None:
    assert has_valid_check_digit("4111111111111111")
    assert not has_valid_check_digit("4111111111111112")


@pytest.mark.parametrize(
    "number", ["", "0", "411111111111111", "41111111111111110", "４111111111111111", "4111 1111 1111 1111"]
)
def test_what_is_not_16_ascii_digits_is_no_number(number: str) -> None:
    assert not has_valid_check_digit(number)


def test_numbers_differ() -> None:
    rng = random.Random(1)
    assert len({new_number(rng) for _ in range(1_000)}) == 1_000


def test_a_sealed_number_opens_again_and_shows_its_last_four_only() -> None:
    vault = _vault()
    sealed = vault.seal("9900123412345678")
    assert sealed.last4 == "5678"
    assert "9900123412345678" not in repr(sealed)
    assert vault.open(sealed.encrypted) == "9900123412345678"


def test_the_same_number_is_encrypted_differently_and_hashed_alike() -> None:
    vault = _vault()
    first, second = vault.seal("9900123412345678"), vault.seal("9900123412345678")
    assert first.encrypted != second.encrypted
    assert first.number_hash == second.number_hash == vault.number_hash("9900123412345678")
    assert first.number_hash != vault.seal("9900123412345677").number_hash


def test_the_hash_depends_on_the_lookup_key_and_not_on_the_encryption_keys() -> None:
    assert _vault().number_hash("1") == _vault().number_hash("1")
    assert _vault().number_hash("1") != _vault(lookup_key="j" * 32).number_hash("1")


def test_after_a_rotation_old_numbers_open_and_new_ones_use_the_new_key() -> None:
    old, new = _key(), _key()
    rotated = _vault(new, old)
    assert rotated.open(_vault(old).seal("9900123412345678").encrypted) == "9900123412345678"
    assert _vault(new).open(rotated.seal("9900123412345678").encrypted) == "9900123412345678"


@pytest.mark.parametrize(
    "encrypted",
    ["", "nonsense", "café", _vault().seal("9900123412345678").encrypted],
    ids=["empty", "nonsense", "accent", "other"],
)
def test_a_number_that_no_key_opens_is_a_transient_failure(encrypted: str) -> None:
    with pytest.raises(TransientError, match="no encryption key decrypts"):
        _vault().open(encrypted)


@pytest.mark.parametrize(
    "bad",
    ["secret-but-short", "secret" + "é" * 38, "secret" + "!" * 38, _key()[:-2]],
    ids=["short", "accents", "signs", "cut"],
)
def test_a_malformed_key_is_named_by_its_place_and_never_shown(bad: str) -> None:
    with pytest.raises(ValueError, match="encryption key 2 is not a Fernet key") as raised:
        _vault(_key(), bad)
    assert bad not in "".join(traceback.format_exception_only(raised.value))
    assert raised.value.__suppress_context__


def test_a_vault_needs_its_keys() -> None:
    with pytest.raises(ValueError, match="at least one encryption key"):
        Vault([], lookup_key=LOOKUP_KEY)
    with pytest.raises(ValueError, match="the lookup key is shorter than 32 characters") as raised:
        _vault(lookup_key="short-secret")
    assert "short-secret" not in str(raised.value)


def test_the_vault_of_the_settings_reads_keys_by_comma_newest_first() -> None:
    old, new = _key(), _key()
    settings = Settings.model_validate({"giftcard_encryption_keys": f"{new}, {old}", "giftcard_lookup_key": LOOKUP_KEY})
    sealed: SealedNumber = vault_of(settings).seal("9900123412345678")
    assert _vault(new).open(sealed.encrypted) == "9900123412345678"
    assert vault_of(settings).open(_vault(old).seal("1").encrypted) == "1"

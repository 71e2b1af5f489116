"""Card numbers and the vault that keeps them."""

import random
import traceback

import pytest
from cryptography.fernet import Fernet
from hypothesis import given
from hypothesis import strategies as st

from lib.config.settings import Settings
from lib.errors import PermanentError, TransientError
from lib.giftcards.cards import ISSUER_PREFIX, SealedNumber, Vault, has_valid_check_digit, new_number, vault_of
from tests.support.ciphertexts import as_before

LOOKUP_KEY = "k" * 32
NUMBER = "9900123412345678"
FLOW = ("default", "order-1")
numbers = st.integers(0, 2**32).map(lambda seed: new_number(random.Random(seed)))


def _vault(*keys: str, lookup_key: str = LOOKUP_KEY) -> Vault:
    return Vault(keys or (_key(),), lookup_key=lookup_key)


def _key() -> str:
    return Fernet.generate_key().decode()


def _opened(vault: Vault, sealed: SealedNumber) -> str:
    return vault.open(sealed.encrypted, FLOW, number_hash=sealed.number_hash)


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
    sealed = vault.seal(NUMBER, FLOW)
    assert sealed.last4 == "5678"
    assert NUMBER not in repr(sealed)
    assert _opened(vault, sealed) == NUMBER


def test_the_same_number_is_encrypted_differently_and_hashed_alike() -> None:
    vault = _vault()
    first, second = vault.seal(NUMBER, FLOW), vault.seal(NUMBER, FLOW)
    assert first.encrypted != second.encrypted
    assert first.number_hash == second.number_hash == vault.number_hash(NUMBER)
    assert first.number_hash != vault.seal("9900123412345677", FLOW).number_hash


def test_the_hash_depends_on_the_lookup_key_and_not_on_the_encryption_keys() -> None:
    assert _vault().number_hash("1") == _vault().number_hash("1")
    assert _vault().number_hash("1") != _vault(lookup_key="j" * 32).number_hash("1")


def test_after_a_rotation_old_numbers_open_and_new_ones_use_the_new_key() -> None:
    old, new = _key(), _key()
    rotated = _vault(new, old)
    assert _opened(rotated, _vault(old).seal(NUMBER, FLOW)) == NUMBER
    assert _opened(_vault(new), rotated.seal(NUMBER, FLOW)) == NUMBER


@pytest.mark.parametrize("flow", [("default", "order-2"), ("acme", "order-1"), ("order-1", "default")])
def test_the_number_of_another_flow_is_refused_for_good(flow: tuple[str, str]) -> None:
    vault = _vault()
    sealed = vault.seal(NUMBER, FLOW)
    with pytest.raises(PermanentError, match="the card number was changed in the database, or is that of another row"):
        vault.open(sealed.encrypted, flow, number_hash=sealed.number_hash)


def test_a_number_of_the_former_form_is_read_if_it_is_that_of_its_hash() -> None:
    key = _key()
    vault = _vault(_key(), key)
    former = as_before(NUMBER, key)
    assert vault.open(former, FLOW, number_hash=vault.number_hash(NUMBER)) == NUMBER
    with pytest.raises(TransientError, match="does not match its hash"):
        vault.open(former, FLOW, number_hash=vault.number_hash("9900123412345677"))


@pytest.mark.parametrize(
    "encrypted",
    [
        "",
        "nonsense",
        "café",
        "v2.",
        "v2.a.b",
        _vault().seal(NUMBER, FLOW).encrypted,
        Fernet(_key()).encrypt(b"1").decode(),
    ],
    ids=["empty", "nonsense", "accent", "version", "short", "other", "former"],
)
def test_a_number_that_no_key_opens_is_a_transient_failure(encrypted: str) -> None:
    with pytest.raises(TransientError, match="no encryption key decrypts"):
        _vault().open(encrypted, FLOW, number_hash="")


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
    assert _opened(_vault(new), vault_of(settings).seal(NUMBER, FLOW)) == NUMBER
    assert _opened(vault_of(settings), _vault(old).seal(NUMBER, FLOW)) == NUMBER

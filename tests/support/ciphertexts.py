"""What is stored encrypted, read with the keys of a world, and written as earlier versions did."""

from cryptography.fernet import Fernet

from lib.giftcards.cards import vault_of
from lib.webhooks.secrets import place_of, secret_cipher
from tests.support.world import ENCRYPTION_KEY, World

OTHER_KEY = "YW5vdGhlciBrZXkgb2YgMzIgYnl0ZXMgZm9yIGhlcmU="


def card_numbers(world: World) -> list[str]:
    """The numbers of all cards, the oldest first."""
    vault = vault_of(world.settings)
    return [
        vault.open(row["number_encrypted"], (row["tenant_id"], row["correlation_id"]), number_hash=row["number_hash"])
        for row in world.sql("select * from public.giftcard_cards order by id")
    ]


def kept_numbers(world: World) -> list[str]:
    """The numbers in the results of effects, in the order of their cards."""
    vault = vault_of(world.settings)
    return [
        vault.open(row["text"], (row["tenant_id"], row["correlation_id"]), number_hash=row["hash"])
        for row in world.sql(
            "select tenant_id, correlation_id, e.result ->> 'number_encrypted' as text, c.number_hash as hash"
            " from public.giftcard_effects e join public.giftcard_cards c using (tenant_id, correlation_id)"
            " where e.result ? 'number_encrypted' order by c.id"
        )
    ]


def webhook_secrets(world: World) -> list[str]:
    """The secrets of all endpoints, the oldest endpoint first, of each the newest secret first."""
    cipher = secret_cipher(world.settings)
    columns = ("secret_encrypted", "previous_secret_encrypted", "oldest_secret_encrypted")
    return [
        cipher.decrypt(row[column], place_of(row["tenant_id"], row["id"]))
        for row in world.sql("select * from public.giftcard_webhook_endpoints order by id")
        for column in columns
        if row[column]
    ]


def as_before(text: str, key: str = ENCRYPTION_KEY) -> str:
    """A text encrypted as earlier versions did, bound to no row."""
    return Fernet(key).encrypt(text.encode()).decode()

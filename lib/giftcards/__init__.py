"""The domain: orders, money, personal codes, cards, and the mail that delivers them."""

"""The map of the house.

    api/index.py    environment → Settings → Store → Flask app: the one entrypoint
    web, cli, local doors: HTTP, the command line, a developer's machine
    tick            one bounded pass over due work: claim → run → settle
    context         what a handler gets: job, deadline, clients, once()
    stages          one file per kind of work: the business
    giftcards       the domain: orders, personal codes, cards, providers, mails
    store           the only code that talks to Postgres
    policy, events  pure decisions; facts and their wording
    job, errors, settings   the words everybody shares

Imports point one way, from the top of this list to its bottom; `tests/unit/test_house.py` holds it so.
Postgres makes every transition (`supabase/schemas/`); Python does what SQL should not.
"""

"""The map of the house.

    api                         environment → Settings → Store → Flask app: the one entrypoint
    demo                        an evening of orders, to look at
    cli, local                  doors: the command line; a developer's machine
    web                         the door of HTTP
    operations, remote, tables  what operators do, here and through a deployment's API; what they see
    tick, requests              one bounded pass over due work: claim → run → settle; what callers may ask for
    run, report, places         one run of a job; what a tick did; the threads that handlers run in
    stages                      one file per kind of work: the business
    giftcards                   the domain: orders, personal codes, cards, providers, mails
    context                     what a handler gets: job, deadline, clients, once()
    clients                     HTTP and mail that never wait past a run's deadline
    store                       the only code that talks to Postgres
    policy, events, redact, validation, shutdown    pure decisions; facts and their wording; leaving in good order
    job, errors, settings       the words everybody shares

Imports point one way, from the top of this list to its bottom; `tests/unit/test_house.py` holds the house to it.
Postgres makes every transition (`supabase/schemas/`); Python does what SQL should not.
"""

"""The rooms of this package are described in `docs/architecture.md`.

Imports point one way, from the top of this list to its bottom; `tests/architecture/test_house.py` checks it:

    demo
    dev
    api
    cli
    web
    operations
    tick
    monitoring
    stages
    api_client, reports
    giftcards, schedules
    jobs, tokens, webhooks
    store
    safe_http
    telemetry
    config, encryption
    caller
    errors, job, mail_address, templates, validation

Postgres makes every transition (`supabase/schemas/`); Python does what SQL should not.
"""

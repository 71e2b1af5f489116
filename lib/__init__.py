"""The map of the house.

    api                         environment → Settings → Store → Flask app: the one entrypoint
    demo                        an evening of orders, to look at
    testing                     for tests of stages of one's own: a real Postgres, moved time, a vendor
    cli, local                  doors: the command line; a developer's machine
    web                         the door of HTTP
    scheduling                  what people do with schedules
    operations, remote, tables  what operators do, here and through a deployment's API; what they see
    doctor                      what is wrong with this deployment, and how to mend it
    tick, requests              one bounded pass over due work: claim → run → settle; what callers may ask for
    sync                        for debuggers: a job runs inside its enqueue
    run, report, places         one run of a job; what a tick did; the threads that handlers run in
    inlets, occurrences         what comes in before a claim: messages of other queues, what schedules have due
    housekeeping                chores after the jobs
    alerts, metrics             who hears of trouble; numbers for Prometheus
    pruning                     what has ended leaves for the archive, and in the end for good
    verdict                     what becomes of a run that failed
    stages                      one file per kind of work: the business
    reports                     the report of a day: how it is asked for, as CSV, as a mail
    webhooks                    tenants are told what has become of their work: endpoints, secrets, signatures
    giftcards                   the domain: orders, personal codes, cards, providers, mails
    context                     what a handler gets: job, deadline, clients, once()
    clients                     HTTP and mail that never wait past a run's deadline
    outside                     calls to addresses that somebody else chose: where they may lead, and how they get there
    store                       the only code that talks to Postgres
    policy, hooks, schedules    pure decisions; where a team bends them; times of cron expressions, what becomes of them
    sentry                      what Sentry hears, if it is asked to
    rendering                   templates of mails and pages
    events, redact, validation, shutdown    facts and their wording; leaving in good order
    job, settings               the words everybody shares
    rules, secrets, spelling    what the environment says of stages; secrets that jobs name; how values are spelt
    encryption                  what the database must not be able to read by itself
    errors                      everything that can go wrong

Imports point one way, from the top of this list to its bottom; `tests/unit/test_house.py` holds the house to it.
Postgres makes every transition (`supabase/schemas/`); Python does what SQL should not.
"""

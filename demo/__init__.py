"""`make demo`: the orders of data/orders.csv become gift cards, with all the failures of real life.

    run            the whole demo: setup, run, checks
    driver         performs the steps of the scenario
    scenario       which order meets which failure, and the shortened times
    database       the demo's own database, created for each run
    supabase       a program that serves the database like Supabase, with --supabase
    payments       a payment service over HTTP, with idempotency keys and failures
    mailbox        a mail server that is down at first and stores its mails as files
    receivers      the other services that are called: webhooks, alerts, scheduled calls
    runtime        the real application with its clock, and a process that is killed
    operator       an operator who creates endpoints and schedules over HTTP, and an uptime monitor
    snapshot       queries on the demo's database
    progress       the events to print while the demo runs
    display        the live display
    screen         the output, on one screen
    intro          with -v: the setup and the imported orders
    results        all results, in one value
    checks         the expected results
    schedules      the results of scheduled jobs, and their checks
    notifications  webhooks and alerts, and their checks
    summary        with -v: the printed results
    inspect        afterwards: `flask jobs …` on the demo's database

Only the vendors are simulated; all output comes from the database, the vendors' records and the mails.
Requires the packages of requirements-demo.txt.
"""

"""`make bench`: the costs of the job processor, compared with four peers and a lower limit. Not a test.

    server       its own Postgres, with default durability, and databases in it
    configs      the contenders with their configurations, as data
    contenders   ours, the limit, PgQueuer, Procrastinate, with the same operations; node/: pg-boss and graphile-worker
    node         installs these two with npm, into .local
    child        runs an operation of a contender in processes of its own
    measure      seconds and CPU of the client; medians with minimum and maximum
    counters     CPU of the server, WAL, commits and rows
    side_by_side, orders, calls, claims, imports        the chapters
    sink         the mail server and the shop of the orders
    table        the output
    report       the same as JSON and Markdown; `--write` puts it into docs/

`docs/performance.md` explains the results. Requires the packages of requirements-bench.txt.
"""

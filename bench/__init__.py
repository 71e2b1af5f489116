"""`make bench`: what the job processor costs, side by side with two peers and with the limit. It is not a test.

    server      a Postgres of its own, durable as Postgres ships, and fresh databases in it
    measure     seconds, CPU of the server and of the client; the median of five, with minimum and maximum
    contenders  ours, the limit, PgQueuer and Procrastinate: the same few verbs for each
    child       one verb of one contender in a process of its own
    side_by_side, calls, claims, together, imports      the chapters, each a few lines of the table
    table       how it is shown

`docs/performance.md` tells how to read it. Needs the packages of requirements-bench.txt.
"""

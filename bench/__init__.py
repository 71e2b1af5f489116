"""`make bench`: the costs of the job processor, compared with two peers and a lower limit. Not a test.

    server       its own Postgres, with default durability, and databases in it
    measure      seconds, CPU of server and client; medians with minimum and maximum
    contenders   ours, the limit, PgQueuer and Procrastinate, with the same operations
    child        runs an operation of a contender in its own process
    side_by_side, calls, claims, together, imports      the chapters of the output
    table        the output

`docs/performance.md` explains the results. Requires the packages of requirements-bench.txt.
"""

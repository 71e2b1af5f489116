"""The doctor: what is wrong with a deployment and how to fix it, one line a check.

    examine       one database call, then every check; it never fails itself
    finding       the deployment that checks receive, and the findings that they return
    environment   checks that need no database: secrets, variables, time, address
    transport     whether secrets travel encrypted; values with quotes around them
    database      checks of the database itself: writes, schema, grants, transactions, dead rows, clocks
    ticks         whether ticks run, how regularly, and whether they are enough
    work          whether jobs can run: keys, stages, rows; and whether money and cards match
    queues        whether pgmq messages can be imported

Green: it works. Yellow: it works, but needs attention. Red: it does not work, or will stop working soon.
docs/doctor.md explains each check.
"""

"""What is wrong with this deployment, and how to mend it: one line a check.

    examine       asks the database once, then runs every check; never fails itself
    finding       what a check looks at, and what it answers
    environment   checks that need no database: secrets, variables, time, address
    database      what the database tells of itself: schema, grants, transactions, dead rows, clocks
    ticks         whether ticks come, in which rhythm, and whether they suffice
    work          whether the work can be done: keys, stages
    queues        whether messages of other queues can come in

Green: well. Yellow: it works, but somebody should look. Red: it does not work, or will not for long.
docs/doctor.md tells of each check.
"""

"""The doctor: what is wrong with a deployment and how to fix it, one line a check.

    examine       one database call, then every check; it never fails itself
    invalid       the same with invalid settings, each of which is a line
    finding       the deployment that checks receive, and the findings that they return
    tokens        the secrets that we choose ourselves
    variables     the names of variables
    vendors       payment and card services, Square, the networks that jobs may call
    mail          the sender, and the mail server
    transport     whether secrets travel encrypted; values with quotes around them
    environment   the platform: the function's time, its clock, its way to the database
    database      checks of the database itself: writes, schema, grants, transactions, dead rows, clocks
    ticks         whether ticks run, how regularly, and whether they are enough
    work          whether jobs can run: keys, stages, rows; and whether money and cards match
    queues        whether pgmq messages can be imported

Green: it works. Yellow: it works, but needs attention. Red: it does not work, or will stop working soon.
docs/doctor.md explains each check.
"""

"""`make soak`: the application works for hours under faults, and is measured all the while.

__main__       the command
plan           how long, how much, which faults and when
run            one soak from its start to its report
database       the embedded Postgres of the soak: restarts, cut connections, read-only minutes
application    the process of one instance of the application
instances      the processes that serve one address
outside        the vendor and the mail server
customers      who orders, over HTTP, until each order is accepted
clock          the minute clock, which calls twice or not at all now and then
operator       who pauses, cancels, reopens and requeues, over HTTP
faults         what goes wrong, at its time
orders         each order on its way, as its customer knows it
facts          what has to be true of each order, checked before its jobs are pruned
sampling       the measurements of a moment
trend          slopes, bounds and the verdict
report         the tables
plot           the pictures
progress       one line at most every ten seconds
"""

"""`make demo`: the orders of data/orders.csv become gift cards, with all that goes wrong in real life.

    play      the whole evening, in order
    story     who meets which fate, and the times that are shortened for it
    database  a database of its own, fresh for each run
    payments  a payment service over HTTP: true idempotency keys, and moods
    mailbox   a mail server that is down at first, and keeps what it gets as files
    stage     the real application with its clock, and a process that is killed in the middle of its work
    facts     what the database says: while it runs, and in the end
    news      what is worth a line while it runs
    live      the display
    opening   what is set up, and the orders
    checks    what should have come out
    summary   what came out
    look      afterwards: `flask jobs …` on the demo's database

Only the vendors are made up; what is shown is read from the database, from their books and from the mails.
Needs the packages of requirements-dev.txt.
"""

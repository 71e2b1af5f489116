"""`make demo`: the orders of data/orders.csv become gift cards, with all that goes wrong in real life.

    play      the whole evening: setting up, playing, judging
    direct    what the story wants, when it wants it
    story     who meets which fate, and the times that are shortened for it
    database  a database of its own, fresh for each run
    supabase  a program that serves it as Supabase does, if the application shall reach it by that wire
    payments  a payment service over HTTP: true idempotency keys, and moods
    mailbox   a mail server that is down at first, and keeps what it gets as files
    receiver  everybody else who is called: webhooks, alerts, scheduled calls
    stage     the real application with its clock, and a process that is killed in the middle of its work
    desk      an operator who makes endpoints and schedules over HTTP, and an uptime monitor
    facts     what the database says: while it runs, and in the end
    news      what is worth a line while it runs
    live      the display
    opening   what is set up, and the orders
    checks    what should have come out
    scheduled what went by the clock, and what should have come of it
    told      who was told, and what they should have heard
    summary   what came out
    look      afterwards: `flask jobs …` on the demo's database

Only the vendors are made up; what is shown is read from the database, from their books and from the mails.
Needs the packages of requirements-dev.txt.
"""

"""`flask jobs …`: the operators' command line.

    group      the command group, --url, errors as one sentence, output
    services   the services behind commands: on the database, or over the API
    help_texts the help of options that are generated
    options    parameter types, options generated from the API's models, JSON input
    models     several models from the options of one command
    known      names that must exist: the closest ones for a wrong name, and completion in the shell
    prompts    confirmations and the progress bar
    tables     tables or records on terminals, aligned text elsewhere
    layout     wrapping at words, and what fits into a terminal's width
    inspect    list, show, history, stuck, errors, status, doctor, stages, circuits, precision
    top        top: the first screen, live; top_frame, top_ticks and top_stages draw it, as top_view describes
    live_screen
               a terminal that is drawn again and again
    manage     requeue, cancel, pause, resume
    operations the group of operations on many jobs: list, show, create, stop, with its tables
    run        tick, enqueue
    import_orders
               import-orders
    orders     the group of orders: show, reconcile, accept, make-free, correct-recipient, resend, record-event, block
    stories    find and story, of the group of orders
    customers  erase-customer
    archive    prune, restore
    audit      audit: who did what
    channels   the group of tests: test mail, test alert
    limits, schedules, webhooks, reports, keys, tokens
               a command group each, with its tables
    views      tables of jobs and runs
    state      tables of the status, the doctor and circuits
    stages     tables of stages and start delays
    trouble    tables of what is stuck, and of errors by kind
    books      tables of orders and of differences between money and cards
    messages   the sentences after each change

Exit codes: 0 success; 1 the database or the API cannot be reached, a check of the doctor is red, a test mail or alert
is not accepted, something is stuck (`stuck`), or money and cards do not match (`orders reconcile`); 2 bad input or a
refusal; 3 some rows of a file were rejected, and the others imported (`import-orders`). Each failure is one sentence
with the reason and with what was done before it.
"""

from lib.cli.group import jobs

__all__ = ["jobs"]

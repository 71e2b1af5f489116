"""`flask jobs …`: what operators do from a terminal.

    group    the command group: where it works (--url), errors as one sentence, answers as JSON or for people
    inputs   options made of the API's own models, JSON and names checked as the API checks them
    ask      questions before what touches many, and progress
    find     list, show, history, status, doctor, circuits, stages
    mend     requeue, cancel, pause, resume
    work     tick, enqueue, import-orders
    erase    erase-customer
    pruning  prune, restore
    schedules the group of schedules, and precision; schedule_views: what they look like
    webhooks the group of webhook endpoints
    reports  the group of reports of days: make, show, list
    views    what each answer that is looked up looks like
    told     the sentences after what was done

Exit codes: 0 done, 1 the database or the API could not be reached (or the doctor found something red), 2 bad input or
refused, with one sentence that says why. Nothing is left half told: what was done before a failure is said with it.
"""

from lib.cli.group import jobs

__all__ = ["jobs"]

"""Schedules: recurring and one-off jobs by the clock.

expression  cron expressions: what each field takes (pure)
zones       time zones, by the package tzdata
cron        the times of an expression in a time zone (pure)
planner     plans for due schedules: jobs and next times (pure)
enqueue     jobs for due schedules, within a tick
service     the operators' verbs for schedules
schemas     the requests
"""

"""Schedules: recurring and one-off jobs by the clock.

cron      cron expressions and their times (pure)
planner   plans for due schedules: jobs and next times (pure)
enqueue   jobs for due schedules, within a tick
service   the operators' verbs for schedules
schemas   the requests
"""

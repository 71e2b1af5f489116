"""Schedules: recurring and one-off jobs by the clock.

cron      cron expressions and their times (pure)
planner   what becomes of schedules that are due (pure)
enqueue   jobs for due schedules, within a tick
service   what operators do with schedules
schemas   what callers may ask for
"""

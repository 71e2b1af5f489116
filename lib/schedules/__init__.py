"""Schedules, purely: no clock, no database.

times    cron expressions and their times
plan     what becomes of schedules that are due
"""

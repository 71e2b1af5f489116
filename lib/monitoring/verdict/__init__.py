"""The verdict: one sentence of what is wrong, the worst first; what happens next by itself, and when; what to do.

judge      the order of all troubles, and the verdict
facts      what finders receive and yield: an overview, a trouble, the action that fixes it
standstill nothing runs: schema and code do not fit, no tick, everything is paused
books      money and cards do not match
services   circuits that are open, webhook endpoints that are off
work       killed runs, stages that wait, overdue jobs, dead letters, late starts
wording    numbers with their nouns, short texts, placeholders of times
"""

from lib.monitoring.verdict.facts import Action
from lib.monitoring.verdict.judge import LONGEST, Verdict, away, verdict
from lib.monitoring.verdict.wording import after, at, moment, parts, rendered

__all__ = ["LONGEST", "Action", "Verdict", "after", "at", "away", "moment", "parts", "rendered", "verdict"]

"""The process that forks the workers imports this once: what a worker needs, before there is one."""

from tests.crash.worker import warm_up

warm_up()

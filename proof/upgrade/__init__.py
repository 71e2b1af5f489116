"""An upgrade under load: a next migration and a next code version, rolled out and back while orders run on both.

migrations  the next migrations, written as CONTRIBUTING.md asks for; faults to plant into them
release     the next code: a copy of this one in a folder of its own, with changes
worker      a process of either version, which takes orders and runs ticks
fleet       the processes as the proof sees them
waits       the locks that sessions wait for while the migrations are applied
rollout     the steps: migrate, deploy, roll back, deploy again
facts       what has to be true in the end
"""

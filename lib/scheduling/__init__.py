"""What people do with schedules.

requests      what they may ask for
operations    how it is done, on the database
remote        the same through a deployment's API
"""

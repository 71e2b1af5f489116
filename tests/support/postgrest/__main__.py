"""The stand-in as a process of its own, over DATABASE_URL: a superuser's address of a database with nothing in it yet.

    DATABASE_URL=postgresql://… python -m tests.support.postgrest

Makes Supabase's roles, says SUPABASE_URL and SUPABASE_SECRET_KEY, and serves until its standard input ends.
"""

import os
import sys

from tests.support.postgrest.caller import SECRET_KEY
from tests.support.postgrest.roles import make_like_supabase
from tests.support.postgrest.server import stand_in


def main() -> int:
    """See the module."""
    url = os.environ["DATABASE_URL"]
    make_like_supabase(url)
    with stand_in(url) as server:
        sys.stdout.write(f"SUPABASE_URL={server.url}\nSUPABASE_SECRET_KEY={SECRET_KEY}\n")
        sys.stdout.flush()
        sys.stdin.read()
    return 0


if __name__ == "__main__":
    sys.exit(main())

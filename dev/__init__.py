"""What a developer's machine needs and production never imports.

    postgres  a real Postgres server kept in a folder
    migrate   supabase/migrations applied to any database, each once
    clock     calls the cron endpoint each minute, as Vercel does
    keys      secrets made once and kept
    serve     `make dev`: all of it together
    testing   fixtures for tests of your own stages

Needs the packages of requirements-dev.txt.
"""

from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
LOCAL = ROOT / ".local"
"""Everything a machine keeps for itself; not in git, safe to delete."""

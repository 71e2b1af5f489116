"""Tools for development, which production never imports.

    postgres  a real Postgres server in a folder
    migrate   applies supabase/migrations to any database
    clock     calls the cron endpoint each minute, as Vercel does
    env_file  the .env that leads `flask jobs` to the database of `make dev`
    keys      secrets of development, created once
    production  `make secrets`: the secrets of a deployment, added to .env.production
    serve     `make dev`: all of it together
    testing   fixtures for tests of your own stages

Requires the packages of requirements-demo.txt; testing those of requirements-dev.txt.
"""

from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
LOCAL = ROOT / ".local"
"""Local data; not in git, safe to delete."""

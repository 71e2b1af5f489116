"""The only code that talks to Postgres: `Store` has one method per SQL function, a wire carries the calls."""

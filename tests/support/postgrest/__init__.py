"""A stand-in for PostgREST, as Supabase serves it: RPC over HTTP, on a real Postgres.

    roles       what Supabase makes in a database before anything of ours is there
    problems    errors: their JSON, and the status of each SQLSTATE
    caller      who calls: the gateway's keys, then PostgREST's JWTs
    routines    the schema cache: which function a call means
    requests    what a request says: body, preferences
    statements  the SQL of one call
    database    connections, and how a transaction begins
    service     one request: a transaction of one call, as the caller's role
    server      HTTP
    __main__    as a process of its own

`tests/wires/facts.py` says how PostgREST 14 to 16 answers; `tests/wires/test_stand_in.py` holds this to it. Left out:
everything but functions (of tables, a plain read), media types but JSON, aggregates, embedding, filters.
"""

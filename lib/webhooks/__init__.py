"""Webhooks: tenants are told what has become of their work (`supabase/schemas/60_webhooks.sql`, `docs/webhooks.md`).

endpoints     what operators do to the addresses that are told, and what callers may ask for (requests)
signing       secrets, and the headers of Standard Webhooks
"""

"""Webhooks: tenants are told what has become of their work (`supabase/schemas/60_webhooks.sql`, `docs/webhooks.md`).

service       what operators do with endpoints
schemas       what callers may ask for
signing       secrets, and the headers of Standard Webhooks
"""

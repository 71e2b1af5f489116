"""Webhooks notify tenants of events (`supabase/schemas/60_webhooks.sql`, `docs/webhooks.md`).

service       operations on endpoints
schemas       requests
signing       secrets, and the headers of Standard Webhooks
"""

"""Tokens of the API: rows with a name, a tenant and scopes. Only the hash of a token is stored.

schemas  requests about tokens
service  create, list and revoke tokens
"""

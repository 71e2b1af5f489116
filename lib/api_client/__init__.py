"""The operators' services, called through a deployment's HTTP API.

transport  the HTTP client: address and token, timeouts, errors as the exceptions of `lib.errors`
jobs, orders, schedules, reports, tokens, webhooks
           a client per resource, built on a transport, with the methods of the local service
"""

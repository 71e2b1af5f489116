"""HTTP: a Flask blueprint per resource, a few lines a route.

app           build the application
auth          bearer tokens
request_data  request bodies, query strings and path parameters
problems      errors as problem+json
services      the services that requests use
paths         percent-decoding of paths
openapi/      the OpenAPI document
"""

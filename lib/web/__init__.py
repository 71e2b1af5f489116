"""HTTP: a Flask blueprint per resource, a few lines a route.

app           build the whole application
first         the application of a cold start, which builds the whole one when it is needed
base          what both have
auth          bearer tokens
request_data  request bodies, query strings and path parameters
problems      errors as problem+json
services      the services that requests use
paths         percent-decoding of paths
openapi/      the OpenAPI document
"""

"""HTTP: a Flask blueprint per resource, a few lines a route.

first         the application of a new process: ticks and health, without Flask; anything else is of app
clock         what these two do
app           build the Flask application
auth          bearer tokens
request_data  request bodies, query strings and path parameters
problems      errors as problem+json
services      the services that requests use
paths         percent-decoding of paths
openapi/      the OpenAPI document
"""

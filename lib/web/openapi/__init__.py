"""The OpenAPI 3.1 document of the API. Imported by the first request for it, not at start-up.

operation    what an entry holds, and the groups of operations
operations   one entry a route: its operationId, its tag, the models of its request and its response
client_operations
             those of webhooks and tokens
responses/   the models of responses, a file a resource
components   the schemas and security schemes that operations refer to
document     the document, built from the routes of the application and the above
page         the document as an HTML page
"""

"""The operators' verbs, done by a deployment through its HTTP API."""

"""The page of operators, at `/`: an application of its own beside the API, over the same services.

Each file of routes reads with the operators' verbs and renders one template. Pages work without scripts; with
`static/page.js` and htmx they stay current. To add one: a blueprint in `app.py`, views under `session.view`, forms with
`csrf()`.
"""

"""The customer's page of an order, `/o/<token>`: where the order stands, and its card once there is one.

routes      the addresses, what is wrong with a token, headers
page        what the page shows, in the order's language
templates/  one template, the words of each language, the style and the icon

The link is all that opens it: there is no login and no list. It works without scripts.
"""

"""Calls to addresses that somebody else chose: which may be called, and the only way to call them.

url, ip_policy      what an address has to look like, and where it may lead
headers             which headers a request may bring along
client              one request, with its redirects, to the very address that was checked
network             the connection beneath it
response            what came back, and what of it may be kept
"""

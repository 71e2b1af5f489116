"""HTTP calls to addresses that someone else chose, safe from SSRF.

url, ip_policy      which URLs and which IP addresses may be called
headers             which headers a request may set
client              one request and its redirects
unpacking           compressed responses of the HTTP clients for our own settings, bounded
network             connections to the address that was checked, within a deadline
response            the response, its excerpt for storage, and its failure
"""

"""Configuration: the one place where environment variables are defined. They are parsed once at start.

settings          all variables with a fixed name, and GIFTCARD_URL, which only `flask jobs` reads
stage_overrides   GIFTCARD_STAGE_<STAGE>_<SETTING>
job_secrets       GIFTCARD_SECRET_<NAME>
vercel            maxDuration of vercel.json: how long a function may run
parsers           the formats of values: URLs, keys, networks, lists
"""

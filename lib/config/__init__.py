"""Configuration: the one place where environment variables are defined. They are parsed once at start.

settings          all variables with a fixed name
load              reads them all, once at start
stage_overrides   GIFTCARD_STAGE_<STAGE>_<SETTING>
stage_settings    the base of the settings of a stage of your own
project           what a project adds: packages of stages, templates, steps of the order's flow
job_secrets       GIFTCARD_SECRET_<NAME>
vercel            maxDuration of vercel.json: how long a function may run
parsers           the formats of values: keys, networks, lists, what is around a value
transport         the rule: secrets travel encrypted
url_parts         the grammar of URLs
urls              the URLs of HTTP services and mail servers
database_url      the URL of the database
covered           the texts that must never appear in output
"""

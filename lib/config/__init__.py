"""Configuration: the one place where environment variables are defined. They are parsed once at start.

settings          all variables with a fixed name
load              reads them all, once at start
kinds             the type of each: what it accepts, and what it refuses
cleaning          what is around a value; placeholders
mail_address      the rule for mail addresses
sentences         what is expected of a number, a switch or a choice
contradictions    settings that contradict each other
dev_env           the .env of `make dev`
stage_overrides   GIFTCARD_STAGE_<STAGE>_<SETTING>
stage_settings    the base of the settings of a stage of your own
project           what a project adds: packages of stages, templates, steps of the order's flow
job_secrets       GIFTCARD_SECRET_<NAME>
vercel            maxDuration of vercel.json: how long a function may run
rates             how many jobs may start in a time
parsers           the formats of values: URLs, networks, lists
transport         the rule: secrets travel encrypted
url_parts         the grammar of URLs
urls              the URLs of HTTP services and mail servers
database_url      the URL of the database
covered           the texts that must never appear in output
"""

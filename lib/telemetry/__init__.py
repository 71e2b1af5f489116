"""What others see of the work: log events, Sentry, and the redaction both share."""

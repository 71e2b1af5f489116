"""Telemetry: log events, Sentry, and the redaction that both use."""

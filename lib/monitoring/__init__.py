"""Alerts, metrics and the doctor."""

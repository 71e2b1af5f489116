"""Configuration: everything that environment variables set, parsed once at start."""

"""The doors over HTTP: Flask blueprints, a few lines a route."""

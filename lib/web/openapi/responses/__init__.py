"""Models of what the API returns, for its OpenAPI document. Responses may have more fields than these models list."""

"""The OpenAPI document, built from the routes and the descriptions of their methods."""

"""The OpenAPI document, built from the routes and from what stands at each of their methods."""

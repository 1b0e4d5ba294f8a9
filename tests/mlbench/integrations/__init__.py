"""What the integrations share; with the real libraries they are in ``tests/integrations``."""

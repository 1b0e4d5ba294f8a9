"""The controller: what it decides, sees and does."""

"""Resources of the API, one file per noun."""

"""The models that benchmark tasks train."""

"""The data sets that benchmark tasks train on."""

"""The data sets, one file for each family: entries of `bitspike.data.catalog`."""

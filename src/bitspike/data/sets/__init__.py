"""The data sets, one file a family: entries of `bitspike.data.catalog`."""

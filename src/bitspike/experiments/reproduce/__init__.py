"""The paper's results, made again: a folder for each table or figure; `tables/` is what its tables share."""

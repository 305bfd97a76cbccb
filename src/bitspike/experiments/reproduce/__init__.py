"""The paper's results, reproduced: one folder for each table or figure; `tables/` holds what the tables share."""

"""The paper reproduced, one folder a table or figure."""

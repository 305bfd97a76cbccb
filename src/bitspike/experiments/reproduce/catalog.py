"""The tables that `bitspike reproduce` offers, by name: a new one is a folder and an entry here."""

from __future__ import annotations

from bitspike.experiments.reproduce.static.table import STATIC
from bitspike.experiments.reproduce.tables.table import PaperTable
from bitspike.experiments.reproduce.temporal.table import TEMPORAL

TABLES: dict[str, PaperTable] = {table.name: table for table in (STATIC, TEMPORAL)}

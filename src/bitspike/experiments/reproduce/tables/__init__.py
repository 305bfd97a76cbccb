"""The parts that all tables made of presets share: cells, training, results, report."""

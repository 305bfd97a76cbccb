"""What all tables of the paper share that are made of presets: cells, training, results, report."""

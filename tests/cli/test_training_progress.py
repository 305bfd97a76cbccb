"""What a person sees of a training on the console."""

import io

from rich.console import Console
from rich.progress import Progress

from bitspike.cli import training_progress
from bitspike.experiments.presets import preset


def test_the_bar_moves_ten_times_a_second_at_most(monkeypatch):
    now = [100.0]
    monkeypatch.setattr(training_progress.time, "monotonic", lambda: now[0])
    shown = Progress(console=Console(file=io.StringIO()), auto_refresh=False)
    told = training_progress.ConsoleProgress(shown, preset("mnist/annealed"))
    watched = {"accuracy": 0.5, "loss": 1.0, "theta": [2.0], "dead": [0.25], "spikes": [7.0]}
    told.epoch_begins(1, 500, 30)
    told.iteration(watched)
    seen = []
    for k in range(250):
        now[0] += 0.001
        told.iteration({**watched, "loss": 2.0} if k == 20 else None)
        seen.append((shown.tasks[0].completed, "loss 2" in shown.tasks[0].fields["figures"]))
    assert sorted(set(seen)) == [(31, False), (131, True), (231, True)]
    told.epoch_begins(2, 500, 0)
    now[0] += 1
    told.iteration(None)
    assert (shown.tasks[0].completed, shown.tasks[0].fields["figures"]) == (1, "")


def test_an_epoch_from_a_graph_has_no_share_of_data():
    timing = {"train_seconds": 1.25, "evaluate_seconds": 0.5, "data_share": 0.125}
    assert training_progress._seconds(timing) == "1.2 + 0.5 s, data 12.5%"
    assert training_progress._seconds({**timing, "data_share": None}) == "1.2 + 0.5 s"

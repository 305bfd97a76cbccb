"""What a person sees of a training on the console."""

import io
import re

import pytest
from rich.console import Console
from rich.progress import Progress

from bitspike.cli import training_progress
from bitspike.experiments.presets import preset
from helpers.own_images import settings, summary_of, write_experiment


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


def test_an_output_that_is_read_by_its_membrane_has_no_threshold(workplace, cli):
    """It never fires: lines, summary, TensorBoard and picture say nothing of its threshold or dead neurons."""
    pytest.importorskip("tensorboard")
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    toml = write_experiment(workplace)
    for readout, shown, names in (
        ("spikes", r"theta 2\.\S+ 2\.\S+  dead \d+ \d+ %", [0, 1]),
        ("membrane", r"theta 2\.\S+ -  dead \d+ - %", [0]),
    ):
        out = workplace / readout
        arguments = settings(f"net.readout={readout}", "train.loss=cross_entropy", "train.epochs=2")
        status, _, err = cli("train", toml, "--out", out, "--device", "cpu", *arguments)
        assert status == 0, err
        assert re.search(shown, err), err
        assert list(summary_of(out)["theta"]) == [f"layers.{i}.lif" for i in names]
        events = EventAccumulator(str(out)).Reload()
        tags = [tag for tag in events.Tags()["scalars"] if tag.startswith(("theta/", "dead/", "spikes/"))]
        assert sorted(tags) == sorted(f"{key}/layers.{i}.lif" for key in ("theta", "dead", "spikes") for i in names)
        assert (out / "curves.png").exists()
    assert (workplace / "spikes/curves.png").read_bytes() != (workplace / "membrane/curves.png").read_bytes()


def test_an_epoch_from_a_graph_has_no_share_of_data():
    timing = {"train_seconds": 1.25, "evaluate_seconds": 0.5, "data_share": 0.125}
    assert training_progress._seconds(timing) == "1.2 + 0.5 s, data 12.5%"
    assert training_progress._seconds({**timing, "data_share": None}) == "1.2 + 0.5 s"

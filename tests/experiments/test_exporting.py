"""A run as plain arrays: the network that `load_run` gives, how its input is made, and what a person asks about it."""

import json

import pytest
import torch

import bitspike
from bitspike.data.config import DataConfig
from bitspike.deploy.engine import Engine
from bitspike.deploy.model import InputModel
from bitspike.experiments.exporting import described_run
from bitspike.experiments.model_input import binning_by, class_names
from helpers.shipped import event_run, image_run, spike_run


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    """A run for each kind of input."""
    folder = tmp_path_factory.mktemp("runs")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("BITSPIKE_DATA", str(folder / "root"))
        return {"image": image_run(folder), "events": event_run(folder), "values": spike_run(folder)}


INPUTS = {
    "image": InputModel("image"),
    "events": InputModel("events", 2000, 5, 2, True, 2, 9000, (9, 8), "first"),
    "values": InputModel("values"),
}


@pytest.mark.parametrize("kind", INPUTS)
def test_the_network_is_the_one_that_load_run_gives(runs, kind):
    found = described_run(runs[kind])
    net = bitspike.load_run(runs[kind])
    shape = (3, *net.input_shape) if kind == "image" else (5, 3, *net.input_shape)
    x = torch.randint(0, 3, shape).float()
    out = Engine(found.model)(x)
    expected = net(x)
    assert torch.equal(torch.from_numpy(out.spikes), expected.spikes)
    assert torch.equal(torch.from_numpy(out.scores), net.scores(x))
    assert found.model.input == INPUTS[kind]


def test_what_a_person_asks(runs):
    model = described_run(runs["image"]).model
    summary = json.loads((runs["image"] / "summary.json").read_text())
    notes = model.metadata
    assert model.class_names == ("no", "maybe", "yes")
    assert json.loads(notes["labels"]) == ["3", "5", "7"]
    assert float(notes["accuracy"]) == pytest.approx(summary["accuracy"], abs=1e-6)
    assert notes["test_samples"] == str(summary["samples"]["test"])
    assert [float(each) for each in notes["spikes"].split()] == pytest.approx(
        list(summary["spikes"].values()), abs=0.05
    )
    assert (notes["experiment"], notes["protocol"], notes["seed"]) == ("on-images", "holdout", "0")
    assert (notes["logit_scale"], notes["data"]) == ("4", "images.npz")
    assert notes["versions"].startswith(f"bitspike {bitspike.__version__}")
    assert "time_unit" not in notes
    assert described_run(runs["events"]).model.metadata["time_unit"] == "ms"


def test_a_run_that_has_not_ended_has_no_results(workplace):
    run = image_run(workplace)
    (run / "summary.json").unlink()
    notes = described_run(run).model.metadata
    assert "accuracy" not in notes
    assert notes["experiment"] == "on-images"


def test_float32_weights_are_refused_by_name(workplace):
    run = image_run(workplace, "binary = false\n")
    with pytest.raises(ValueError, match=r"on-images cannot be exported: layer 1 has weights of 32 bits") as caught:
        described_run(run)
    assert "\n" not in str(caught.value)


def test_one_s_own_file_that_is_gone_leaves_plain_values(workplace):
    """A run of an earlier version kept no input."""
    run = image_run(workplace)
    summary = json.loads((run / "summary.json").read_text())
    del summary["input"]
    (run / "summary.json").write_text(json.dumps(summary))
    assert described_run(run).model.input.kind == "image"
    (workplace / "images.npz").unlink()
    assert described_run(run).model.input.kind == "values"


def test_a_damaged_input_is_told(workplace):
    run = image_run(workplace)
    summary = json.loads((run / "summary.json").read_text())
    (run / "summary.json").write_text(json.dumps({**summary, "input": {"kind": "images"}}))
    with pytest.raises(ValueError, match="its table input"):
        described_run(run)


def test_names_of_built_in_classes():
    assert class_names(DataConfig(name="fashion"), 10)[9] == "ankle boot"
    assert class_names(DataConfig(name="mnist"), 12)[9:] == ["9", "class 10", "class 11"]
    assert len(class_names(DataConfig(name="dvs128"), 11)) == 11


def test_bins_that_are_not_known_are_told():
    with pytest.raises(ValueError, match="does not say how wide its time bins are"):
        binning_by(InputModel("events"))

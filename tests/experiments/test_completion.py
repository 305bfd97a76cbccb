"""Experiment files of a few lines: what they leave out comes from their data or a base recipe."""

import numpy as np
import pytest

from bitspike import load_run
from bitspike.experiments import completion
from bitspike.experiments.assembly import RunOptions
from bitspike.experiments.net_config import Decays
from bitspike.experiments.presets import preset
from bitspike.experiments.recipes import MEASURED, lines_about
from bitspike.experiments.schema import as_toml, as_values, read_experiment, with_values
from bitspike.experiments.suggested import suggest_thresholds
from helpers.files import event_arrays, write_npz

MS = 'time_unit = "ms"\n'
FILE = '[data]\nfile = "own.npz"\n'
NEURONS = "beta = 0.9\nslope = 1.0\ntheta = 2.0\n"


def row_arrays(samples=60, channels=6, classes=3, count=40, end=999):
    """Events of a row of channels, times in milliseconds; the class is the channel that fires most."""
    rng = np.random.default_rng(0)
    labels = np.arange(samples) % classes
    t = np.sort(rng.uniform(0, end, (samples, count)), 1)
    t[:, -1] = end
    x = np.where(rng.random((samples, count)) < 0.5, labels[:, None], rng.integers(0, channels, (samples, count)))
    x[0, 0] = channels - 1
    return {"t": t.ravel(), "x": x.ravel(), "offsets": np.arange(samples + 1) * count, "labels": labels}


def image_arrays(samples=60, side=8):
    rng = np.random.default_rng(0)
    return {"images": rng.integers(0, 256, (samples, side, side), dtype=np.uint8), "labels": np.arange(samples) % 3}


@pytest.fixture
def read(workplace):
    """Read an experiment: the arrays of its data, its text behind [data] file, and settings."""

    def call(arrays, text="", *settings, top=""):
        write_npz(workplace / "own.npz", **arrays)
        (workplace / "mine.toml").write_text(top + FILE + text)
        return read_experiment(workplace / "mine.toml", settings)

    return call


def refuse(call, error, says):
    """The call raises the error, and its one line has all parts of `says` in their order."""
    with pytest.raises(error) as caught:
        call()
    message, place = str(caught.value), 0
    assert "\n" not in message
    for part in says.split(" | "):
        assert part in message[place:], message
        place = message.index(part, place)


def test_two_lines_make_a_network_for_a_row_of_channels(read):
    spec = read(row_arrays(), MS)
    assert (spec.data.bin_ms, spec.data.steps) == (10.0, 100)
    assert spec.net.notation == "6-256-256-3"
    decays = Decays(low=0.6, high=0.97)
    assert spec.net.beta == [decays, decays, 0.95]
    assert (spec.net.delays, spec.net.readout, spec.net.theta, spec.net.dense_norm) == (
        [0, 25, 25],
        "membrane",
        1.0,
        True,
    )
    assert (spec.train.lr, spec.train.latent_clip, spec.train.batch, spec.train.epochs) == (5e-3, 0.1, 32, 20)
    assert spec.train.rates is not None
    assert spec.train.rates.given() == {"norms": 2e-3, "delays": 0.15}
    assert (spec.train.shift, spec.train.zoom, spec.train.mix) == (0, 0.0, 0.0), "the place may be the answer"
    assert spec.base is None


def test_every_field_that_is_not_the_files_has_a_source(read):
    spec = read(row_arrays(), MS)
    names = ("data", "net", "train")
    defaults = {f"{name}.{key}" for name in names for key in getattr(spec, name).model_fields_set}
    assert defaults - set(spec.sources) == {"data.file", "data.time_unit"}
    assert all(source.startswith(("base/sequences: ", "found: ")) for source in spec.sources.values())


WITHOUT_NORM = "[net]\nhidden = [16, 12]\ndense_norm = false\n"


def test_thresholds_without_batch_norm_are_measured(read):
    spec = read(row_arrays(), MS + WITHOUT_NORM)
    suggested = suggest_thresholds(with_values(spec, ["net.theta=1.0"]), RunOptions())
    assert as_values(spec)["net"]["theta"] == [layer.theta for layer in suggested.layers]
    assert len({layer.drive for layer in suggested.layers}) == 3
    assert spec.sources["net.theta"] == MEASURED
    assert lines_about(spec.sources, as_values(spec))[-1] == (
        "net.theta is measured, as by bitspike suggest, for the layers without batch norm"
    )
    assert read(row_arrays(), MS + "[net]\nhidden = [16, 12]\n", "net.dense_norm=false").net.theta == spec.net.theta
    again = read(row_arrays(), MS + WITHOUT_NORM, "seed=1")
    assert again.net.theta != spec.net.theta, "the weights are others"


def test_thresholds_that_fit_are_not_measured(read):
    assert read(row_arrays(), MS + WITHOUT_NORM + "theta = 3.0\n").net.theta == 3.0
    assert read(row_arrays(), MS + "[net]\nhidden = [16]\ndense_norm = true\n").net.theta == 1.0
    only_last = read(image_arrays(), '[net]\ndense_norm = false\nreadout = "membrane"\n')
    assert "Conv" in only_last.net.notation
    assert only_last.net.theta == 1.0, "behind batch norm, and a layer that never fires"


def test_a_layer_behind_batch_norm_keeps_its_threshold(read):
    text = '[net]\nnotation = "4Conv3-AP2-36Dense12Dense3"\nreadout = "membrane"\nsteps = 10\n'
    theta = read(image_arrays(), text + "dense_norm = false\n").net.theta
    assert theta[0] == 1.0
    assert all(each != 1.0 for each in theta[1:])
    both = read(image_arrays(), text + 'dense_norm = false\nnorm = "none"\n').net.theta
    assert both[0] != 1.0


def test_a_wrong_field_beside_no_norm_is_told_as_before(read):
    refuse(lambda: read(row_arrays(), MS + WITHOUT_NORM + "slope = -1\n"), ValueError, "net.slope: must be greater")
    wrong = read(row_arrays(), MS + '[net]\nnotation = "7-8-3"\ndense_norm = false\n')
    assert wrong.net.theta == 1.0  # the network says what does not fit


def test_hidden_gives_dense_layers_for_any_data(read):
    assert read(row_arrays(), MS + "[net]\nhidden = [32]\n").net.notation == "6-32-3"
    assert read(image_arrays(), "[net]\nhidden = [32, 16]\n").net.notation == "64-32-16-3"
    assert read(event_arrays(12), "[net]\nhidden = [16]\n").net.notation == "72-16-3"
    spec = read(row_arrays(), MS + f"[net]\nhidden = [8]\n{NEURONS}[train]\nlr = 0.1\n")
    assert (spec.net.notation, spec.net.hidden, spec.net.delays) == ("6-8-3", None, 0)
    assert read(row_arrays(), MS, "net.hidden=[5]").net.notation == "6-5-3"


def test_images_take_their_own_recipe_and_convolutions(read):
    spec = read(image_arrays(side=12))
    assert spec.net.notation == "24Conv5-AP2-48Conv3-AP2-48Dense3"
    assert (spec.net.norm, spec.net.steps, spec.net.delays) == ("shared", 10, 0)
    assert spec.sources["net.slope"].startswith("base/images: ")
    dense = read(image_arrays(), "[net]\nhidden = [16]\n")
    assert dense.net.norm == "none"


def test_a_camera_gets_convolutions_without_delays_and_a_small_picture(read):
    spec = read(event_arrays(30, side=12))
    assert spec.net.notation == "16Conv5-AP2-32Conv3-AP2-32Dense3"
    assert (spec.net.norm, spec.net.delays) == ("shared", 0)
    assert spec.train.rates is not None
    assert spec.train.rates.given() == {"norms": 2e-3}
    assert spec.data.downsample is None
    large = event_arrays(30, side=100)
    assert read(large).data.downsample == 4
    assert read(large).net.notation == "16Conv5-AP2-32Conv5-AP2-288Dense3"
    assert read(large, "downsample = 10\n").net.notation == "16Conv5-AP2-32Dense3".replace("32", "144")
    dense = read(large, "[net]\nhidden = [4]\n")
    assert (dense.data.downsample, dense.net.notation) == (4, "1250-4-3")
    given = read(large, '[net]\nnotation = "20000-4-3"\n')
    assert given.data.downsample is None


def test_decays_and_delays_follow_the_number_of_steps(read):
    spec = read(row_arrays(), MS + "steps = 40\n")
    assert spec.data.bin_ms == 25.0
    assert spec.net.delays == [0, 10, 10]
    assert spec.net.beta == [Decays(low=0.279, high=0.927)] * 2 + [0.88]


def test_the_file_and_settings_win_over_the_recipe(read):
    text = MS + "[net]\ntheta = 0.5\n[train]\nlr = 1e-3\nbatch = 7\nepochs = 3\n"
    spec = read(row_arrays(), text, "net.slope=2", "train.latent_clip=none", "net.delays=0")
    assert (spec.net.theta, spec.net.slope, spec.net.delays) == (0.5, 2.0, 0)
    assert (spec.train.lr, spec.train.batch, spec.train.epochs, spec.train.latent_clip) == (1e-3, 7, 3, None)
    assert spec.train.rates is not None
    assert spec.train.rates.given() == {"norms": 2e-3}, "without delays they have no rate"
    assert not {"net.theta", "net.slope", "train.lr", "train.batch"} & set(spec.sources)
    assert read(row_arrays(), MS, "train.epochs=2").data.repeat == read(row_arrays(), MS).data.repeat


@pytest.mark.parametrize("given", [("", "train.rates.delays=0.5"), ("[train.rates]\ndelays = 0.5\n", "net.slope=2")])
def test_a_rate_that_the_file_gives_leaves_the_others_to_the_recipe(read, given):
    text, setting = given
    spec = read(row_arrays(), MS + text, setting)
    assert spec.train.rates is not None
    assert spec.train.rates.given() == {"norms": 2e-3, "delays": 0.5}
    without = read(row_arrays(), MS + text, "train.rates.norms=none", "train.rates.delays=0.5")
    assert without.train.rates is not None
    assert without.train.rates.given() == {"delays": 0.5}


@pytest.mark.parametrize(
    ("settings", "gone"),
    [
        (["net.binary=false"], ["train.latent_clip"]),
        (["net.dense_norm=false"], ["train.recalibrate"]),
        (["train.schedule=constant"], ["train.warmup"]),
        (["train.half_period=50"], ["train.warmup"]),
    ],
)
def test_what_has_no_meaning_beside_the_files_fields_is_left_out(settings, gone, read):
    spec = read(row_arrays(), MS, *settings)
    for key in gone:
        table, _, field = key.partition(".")
        assert field not in getattr(spec, table).model_fields_set


def test_a_file_that_describes_its_neurons_takes_no_recipe(read):
    net = f'[net]\nnotation = "6-8-3"\n{NEURONS}'
    spec = read(row_arrays(), MS + f"bin_ms = 5.0\nsteps = 9\n{net}[train]\nlr = 0.1\n")
    assert set(spec.sources) == set()
    assert (spec.net.delays, spec.net.readout, spec.train.loss, spec.train.epochs) == (0, "spikes", "count", 500)
    found = read(row_arrays(), MS + f"{net}[train]\nlr = 0.1\n")
    assert (found.data.steps, set(found.sources)) == (100, {"data.bin_ms", "data.steps"})
    named = read(row_arrays(), MS + f"{net}[train]\nlr = 0.1\n", top='base = "base/sequences"\n')
    assert (named.net.delays, named.net.theta, named.train.lr) == ([0, 25], 2.0, 0.1)


def test_such_a_file_is_read_without_its_data(read, workplace, monkeypatch):
    text = f'bin_ms = 5.0\nsteps = 9\n[net]\nnotation = "6-8-3"\n{NEURONS}[train]\nlr = 0.1\n'
    monkeypatch.setattr(completion, "_filled", None)
    assert read(row_arrays(), MS + text).data.steps == 9


@pytest.mark.parametrize("kind", ["images", "spikes"])
def test_a_run_is_loaded_without_its_data(kind, workplace, cli, monkeypatch):
    values = np.random.default_rng(0).integers(0, 2, (30, 4, 6), dtype=np.uint8)
    write_npz(workplace / "own.npz", **{kind: values}, labels=np.arange(30) % 3)
    inputs = 24 if kind == "images" else 6
    text = f'[net]\nnotation = "{inputs}-3"\n{NEURONS}[train]\nlr = 0.1\nepochs = 1\ntensorboard = false\n'
    (workplace / "mine.toml").write_text(FILE + text)
    assert cli("train", workplace / "mine.toml", "--out", workplace / "run", "--device", "cpu")[0] == 0
    monkeypatch.setattr(completion, "_filled", None)
    assert load_run(workplace / "run").layers[0].synapse.in_features == inputs


def test_base_none_asks_for_every_field(read):
    says = "mine.toml: net.beta is missing | train"
    refuse(lambda: read(row_arrays(), MS + "[net]\n", top='base = "none"\n'), ValueError, says)
    refuse(lambda: read(row_arrays(), MS + "[net]\n", "base=none"), ValueError, says)


def test_a_completed_experiment_is_read_again_as_it_is(read, workplace, monkeypatch):
    for text, arrays in ((MS, row_arrays()), ("", image_arrays()), ("", event_arrays(30, side=100))):
        spec = read(arrays, text)
        (workplace / "again.toml").write_text(as_toml(spec))
        with monkeypatch.context() as patch:
            if spec.data.bin_ms is not None:
                patch.setattr(completion, "_filled", None)  # not even the data is opened
            assert read_experiment(workplace / "again.toml") == spec


@pytest.mark.parametrize(
    ("text", "settings", "says"),
    [
        ('[net]\nhidden = [3]\nnotation = "6-3-3"\n', (), "mine.toml: net.hidden and net.notation both | give one"),
        ('[net]\nnotation = "6-3-3"\n', ("net.hidden=[3]",), "--set net.hidden=[3]: | both | give one"),
        ("[net]\nhidden = 3\n", (), "mine.toml: net.hidden: must be a list of widths | [256, 256] | is 3"),
        ("[net]\nhidden = [3, 0]\n", (), "mine.toml: net.hidden: must be a list of widths | [3, 0]"),
        ("[net]\nhidden = []\n", (), "mine.toml: net.hidden: must be a list of widths | is []"),
        ("[net]\nbta = 3\n", (), "mine.toml: no field is named | net.bta | did you mean 'net.beta'"),
        ("", ("base=best",), "--set base=best: base must be one of 'base/sequences', 'base/images', 'none' | 'best'"),
        ("", ("base=base/images",), "mine.toml: base = 'base/images' is not for own.npz | sequences; use 'base/seq"),
        ("", ("train.lr=none",), "--set train.lr=none: train.lr is missing"),
        ("", ("train.lr=-1",), "--set train.lr=-1: train.lr: must be greater than 0"),
        ("", ("data.file=no.npz",), "no.npz does not exist"),
        ("bin_ms = -1\n", (), "mine.toml: data.bin_ms: must be greater than 0"),
    ],
)
def test_mistakes_are_one_clear_line(text, settings, says, read):
    error = FileNotFoundError if "no.npz" in says else ValueError
    refuse(lambda: read(row_arrays(), MS + text, *settings), error, says)


def test_presets_take_no_recipe():
    for setting, says in (
        ("base=none", "--set base=none: base: belongs to experiment files"),
        ("net.hidden=[3]", "--set net.hidden=[3]: | both give the network's layers"),
        ("net.beta=none", "--set net.beta=none: net.beta is missing"),
    ):
        refuse(lambda each=setting: with_values(preset("shd/best"), [each]), ValueError, says)
    refuse(lambda: preset("base/images"), ValueError, "base/images is a recipe | [data] and file | preset show")


def test_the_coding_task_has_no_recipe(workplace):
    (workplace / "mine.toml").write_text('[data]\nname = "coding"\n')
    says = "mine.toml: no recipe is for the task 'coding'; give net.notation"
    refuse(lambda: read_experiment(workplace / "mine.toml"), ValueError, says)


def test_the_shortest_file_trains_and_evaluates_and_says_what_it_took(workplace, cli):
    write_npz(workplace / "own.npz", **row_arrays(end=19))
    (workplace / "mine.toml").write_text(FILE + MS + "[net]\nhidden = [8]\n")
    train = ("train", "mine.toml", "--epochs", 1, "--set", "train.tensorboard=false", "--set", "data.repeat=2")
    status, _, err = cli(*train)
    assert status == 0, err
    assert "95 time bins of 0.2 ms (found: 95 % of the samples end within 19 ms" in err
    assert "recipe base/sequences: 2 passes, 2 an epoch, batch 32, delays of hidden layers up to 24 steps (" in err
    assert cli("evaluate", "runs/mine")[0] == 0
    assert cli(*train, "--resume")[0] == 0, "the file is completed alike"


def test_recipes_are_shown(cli):
    status, out, _ = cli("preset", "show", "base/sequences")
    assert status == 0
    assert 'readout = "membrane"' in out
    assert "[sources]" in out

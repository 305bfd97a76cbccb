"""Fields that would do nothing are refused in one line, before anything trains."""

import numpy as np
import pytest

from bitspike.data.datasets import open_dataset
from bitspike.experiments.assembly import build_network, check_fit
from bitspike.experiments.presets import preset, preset_names
from bitspike.experiments.schema import read_experiment, with_values
from bitspike.experiments.unused import RULES
from helpers.bad_input import require_clear_line
from helpers.files import write_npz

TOML = """
[data]
file = "own.npz"
[net]
notation = "6-9-3"
beta = 0.9
slope = 1.0
theta = 1.0
[train]
lr = 1e-3
epochs = 1
"""


@pytest.fixture(scope="module")
def home(tmp_path_factory):
    """A folder with an experiment on spikes of six channels over five steps."""
    folder = tmp_path_factory.mktemp("own")
    rng = np.random.default_rng(0)
    spikes = (rng.random((60, 5, 6)) < 0.3).astype(np.uint8)
    write_npz(folder / "own.npz", spikes=spikes, labels=np.arange(60) % 3)
    (folder / "own.toml").write_text(TOML)
    return folder


def fit(home, *settings):
    spec = with_values(read_experiment(home / "own.toml"), settings)
    data = open_dataset(spec.data)
    check_fit(spec, build_network(spec, data.shape), data)


REFUSED = [
    (
        "data.validation_groups=[1]",
        ["train.protocol=paper"],
        "data.validation_groups = [1] would do nothing | train.protocol = 'holdout' | leave the groups out",
    ),
    ("net.norm=shared", [], "net.norm = 'shared' would do nothing | a convolution | net.dense_norm = true"),
    (
        "net.recurrent=true",
        ["net.notation='6-3'"],
        "net.recurrent = true would do nothing | hidden Dense layer | net.hidden | false",
    ),
    ("net.clip=1", ["net.binary=false"], "net.clip = 1.0 would do nothing | net.binary = true | set it to none"),
    ("net.steps=50", [], "net.steps = 50 would do nothing | samples without time steps | data.steps"),
    ("net.glances=5", [], "build: glances are for images | leave glances at 1"),
    ("train.momentum=0.9", [], "train.momentum = 0.9 would do nothing | train.optimizer = 'sgd' | set it to 0.0"),
    ("train.betas=[0.8,0.9]", ["train.optimizer=sgd"], "train.betas = [0.8, 0.9] would do nothing | 'adam' or 'adamw'"),
    ("train.eps=1e-5", ["train.optimizer=sgd"], "train.eps = 1e-05 would do nothing | 'adam' or 'adamw'"),
    ("train.mix_with=class", [], "train.mix_with = 'class' would do nothing | train.mix | set it to 'any'"),
    ("train.delay_soft=0.5", [], "train.delay_soft = 0.5 would do nothing | net.delays"),
    ("train.delay_width=0.4", [], "train.delay_width = 0.4 would do nothing | net.delays"),
    ("train.correct=0.9", ["train.loss=cross_entropy"], "train.correct = 0.9 would do nothing | train.loss = 'count'"),
    ("train.incorrect=0.1", ["train.loss=cross_entropy"], "train.incorrect = 0.1 would do nothing | 'count'"),
    ("train.logit_scale=5", [], "train.logit_scale = 5.0 would do nothing | train.loss = 'cross_entropy'"),
    ("train.label_smoothing=0.1", [], "train.label_smoothing = 0.1 would do nothing | 'cross_entropy'"),
    ("train.over_time=sum", [], "train.over_time = 'sum' would do nothing | train.loss = 'trace'"),
    ("train.recalibrate=10", [], "train.recalibrate measures batch norm's statistics | set it to 0"),
]


@pytest.mark.parametrize(("setting", "more", "says"), REFUSED, ids=[setting for setting, *_ in REFUSED])
def test_a_field_that_would_do_nothing_is_refused(setting, more, says, home):
    fit(home, *more)
    require_clear_line(lambda: fit(home, *more, setting), ValueError, [part.strip() for part in says.split("|")])


def test_every_rule_is_tried():
    tried = {setting.partition("=")[0] for setting, *_ in REFUSED}
    assert {rule.field for rule in RULES} <= tried


@pytest.mark.parametrize(
    "settings",
    [
        ["train.optimizer=sgd", "train.momentum=0.9"],
        ["net.delays=3", "train.delay_soft=0.5", "train.delay_width=0.4"],
        ["train.mix=0.2", "train.mix_with=class"],
        ["train.loss=cross_entropy", "train.label_smoothing=0.1", "train.logit_scale=5"],
        ["net.dense_norm=true", "train.recalibrate=10"],
        ["net.recurrent=true", "net.clip=1"],
        ["train.momentum=0", "train.mix_with=any", "net.norm=none", "net.steps=100"],
    ],
)
def test_a_field_that_does_something_or_has_its_default_is_taken(settings, home):
    fit(home, *settings)


@pytest.mark.parametrize("name", preset_names())
def test_no_preset_has_a_field_of_training_that_does_nothing(name):
    spec = preset(name)
    for rule in RULES:
        table, _, field = rule.field.partition(".")
        config = getattr(spec, table)
        if table == "train" and getattr(config, field) != type(config).model_fields[field].default:
            assert rule.used(spec, None), rule.field

"""What a user writes behind --set, for a preset or a file: taken as it is meant, or refused in one line that helps."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bitspike.config import known_keys
from bitspike.experiments.net_config import Rise
from bitspike.experiments.presets import preset
from bitspike.experiments.schema import Experiment, as_toml, as_values, read_experiment, with_values
from bitspike.experiments.settings import parse_setting
from helpers.experiments import experiments, get, numbers, refusal, rises, shares

MNIST = preset("mnist/annealed")
SHD = preset("shd/annealed")


def refused(setting: str, spec: Experiment = MNIST) -> str:
    return refusal(with_values, spec, [setting])


# ---- What --set takes


@pytest.mark.parametrize(
    ("setting", "key", "value"),
    [
        ("train.epochs=5", "train.epochs", 5),
        ("train.epochs=1_000", "train.epochs", 1000),
        ("train.lr=1e-3", "train.lr", 1e-3),
        (" train.lr = 2 ", "train.lr", 2.0),
        ("train.betas=[0.8, 0.9]", "train.betas", (0.8, 0.9)),
        ("net.beta=[0.1, 0.2, 0.3]", "net.beta", [0.1, 0.2, 0.3]),
        ("net.dropout=0", "net.dropout", 0.0),
        ("net.binary=false", "net.binary", False),
        ("net.norm=shared", "net.norm", "shared"),
        ("net.notation=784-10", "net.notation", "784-10"),
        ("net.notation=16Conv5-AP2-2304Dense10", "net.notation", "16Conv5-AP2-2304Dense10"),
        ('title="two words"', "title", "two words"),
        ("title='single = quotes'", "title", "single = quotes"),
        ("title=two words", "title", "two words"),
        ("title=a=b", "title", "a=b"),
        ("title=", "title", ""),
        ("name=mine", "name", "mine"),
        ("seed=7", "seed", 7),
        ("net.theta=3", "net.theta", 3.0),
        ("net.theta.0.start=3", "net.theta.0.start", 3.0),
        ("net.theta.2=5.5", "net.theta.2", 5.5),
        ("net.theta.1={start=1, stop=2, steps=9}", "net.theta.1", Rise(start=1, stop=2, steps=9)),
        ("net.theta={start=1, stop=2, tau=30}", "net.theta", Rise(start=1, stop=2, tau=30)),
        ("net.theta=[1, 2, {start=1, stop=4, rate=0.5}]", "net.theta.2", Rise(start=1, stop=4, rate=0.5)),
        ("train.grad_clip=1", "train.grad_clip", 1.0),
        ("train.patience=none", "train.patience", None),
        ("train.patience=None", "train.patience", None),
        ("data.train_limit=100", "data.train_limit", 100),
        ("train.loss=cross_entropy", "train.loss", "cross_entropy"),
        ("train.logit_scale=7", "train.logit_scale", 7.0),
        ("train.label_smoothing=0.1", "train.label_smoothing", 0.1),
        ("train.schedule=decay", "train.schedule", "decay"),
        ("train.latent_clip=0.1", "train.latent_clip", 0.1),
        ("train.latent_clip=none", "train.latent_clip", None),
        ("train.recalibrate=5120", "train.recalibrate", 5120),
        ("train.optimizer=adamw", "train.weight_decay", 0.01),
        ("net.surrogate=arctan", "net.surrogate", "arctan"),
        ("net.surrogate=triangular", "net.surrogate", "triangular"),
        ("net.surrogate=sigmoid", "net.surrogate", "sigmoid"),
        ("paper.best=50", "paper.best", 50.0),
        ("paper=none", "paper", None),
    ],
)
def test_a_setting_is_taken_as_it_is_meant(setting, key, value):
    changed = with_values(MNIST, [setting])
    assert get(changed, key) == value
    assert type(get(changed, key)) is type(value)


def test_only_what_was_set_changes():
    changed = as_values(with_values(MNIST, ["train.lr=1"]))
    expected = as_values(MNIST)
    expected["train"]["lr"] = 1.0
    expected["sources"]["train.lr"] = changed["sources"]["train.lr"]
    assert changed == expected


def test_settings_are_taken_in_order():
    assert with_values(MNIST, ["train.lr=1", "train.lr=2"]).train.lr == 2
    both = with_values(MNIST, ["data.name=none", "data.file=own.npz"])
    assert (both.data.name, both.data.file.name) == (None, "own.npz")
    assert with_values(MNIST, ["net.theta=[1, 2, 3]", "net.theta.1=7"]).net.theta == [1, 7, 3]


def test_no_settings_change_nothing():
    assert with_values(MNIST, []) == MNIST
    assert with_values(MNIST, []).sources == MNIST.sources


def test_the_experiment_it_came_from_stays_as_it_was():
    before = as_toml(MNIST)
    with_values(MNIST, ["net.theta.0.start=3", "train.lr=1"])
    assert as_toml(MNIST) == before


def test_a_setting_cannot_smuggle_in_a_second_line():
    with pytest.raises(ValueError, match=r"train\.lr"):
        with_values(MNIST, ["train.lr=1\ntrain.epochs=3"])


# ---- What --set refuses


@pytest.mark.parametrize("setting", ["train.lr", "", "=3", " = 3", "--epochs 3"])
def test_a_setting_without_a_key_or_value_says_how_to_write_one(setting):
    assert refusal(parse_setting, setting) == f"--set {setting!r}: write key=value, such as train.epochs=5"


@pytest.mark.parametrize(
    ("setting", "near"),
    [
        ("train.ephocs=5", "train.epochs"),
        ("epochs=5", "train.epochs"),
        ("lr=5", "train.lr"),
        ("train.notation=784-10", "net.notation"),
        ("data.trainlimit=5", "data.train_limit"),
        ("data.epochs=5", "train.epochs"),
        ("sed=1", "seed"),
    ],
)
def test_an_unknown_key_names_the_nearest(setting, near):
    key = setting.partition("=")[0]
    assert refused(setting) == f"--set {setting}: no field is named {key!r}; did you mean {near!r}?"


@pytest.mark.parametrize(("wrong", "right"), [("net.lr", "train.lr"), ("train.theta", "net.theta")])
def test_the_right_field_of_a_wrong_table_names_the_right_table(wrong, right):
    assert f"did you mean {right!r}?" in refused(f"{wrong}=1")


def test_a_hopeless_key_lists_all_fields():
    message = refused("qqqq=1")
    assert all(key in message for key in known_keys(Experiment))


@pytest.mark.parametrize("setting", ["net.theta.0.strat=3", "paper.bets=3"])
def test_a_field_inside_a_threshold_or_the_paper_is_named_too(setting):
    message = refused(setting)
    assert "start" in message.partition(";")[2] or "best" in message.partition(";")[2]


@pytest.mark.parametrize("table", ["net", "data", "train"])
def test_a_whole_table_cannot_be_set_and_the_error_says_so(table):
    assert "table" in refused(f"{table}=3")


@pytest.mark.parametrize(
    "setting",
    [
        "net.beta.0=0.5",  # not a list
        "net.theta.9.start=3",  # three layers
        "net.theta.9=3",
        "net.theta.-1=3",
        "net.theta.start=3",  # a list, not a table
        "net.theta.0.start.x=3",
        "train.lr.x=3",
        "name.x=3",
    ],
)
def test_a_path_that_leads_nowhere_is_refused(setting):
    key = setting.partition("=")[0]
    assert refused(setting).startswith(f"--set {setting}: {key!r} leads nowhere; ")


def test_a_path_that_leads_nowhere_names_what_it_stopped_at():
    assert "; net.theta is [" in refused("net.theta.9.start=3")


@pytest.mark.parametrize(
    ("setting", "field", "rule", "shown"),
    [
        ("train.lr=fast", "train.lr", "a number", "'fast'"),
        ("train.lr=", "train.lr", "a number", "''"),
        ("train.lr=-1", "train.lr", "greater than 0", "-1"),
        ("train.lr=0", "train.lr", "greater than 0", "0"),
        ("train.lr=nan", "train.lr", "a finite number", "nan"),
        ("train.lr=inf", "train.lr", "a finite number", "inf"),
        ("train.lr=-inf", "train.lr", "a finite number", "-inf"),
        ("train.lr=[1", "train.lr", "a number", "'[1'"),
        ("train.lr={a=1", "train.lr", "a number", "'{a=1'"),
        ("train.lr=2020-01-01", "train.lr", "a number", "2020"),
        ("train.epochs=0", "train.epochs", "greater than or equal to 1", "0"),
        ("train.epochs=1.5", "train.epochs", "a whole number", "1.5"),
        ("train.epochs=[1, 2]", "train.epochs", "a whole number", "[1, 2]"),
        ("train.optimizer=lion", "train.optimizer", "'adam', 'adamw' or 'sgd'", "'lion'"),
        ("train.betas=[0.9, 1.0]", "train.betas.1", "less than 1", "1.0"),
        ("train.protocol=test", "train.protocol", "'holdout' or 'paper'", "'test'"),
        ("train.loss=mse", "train.loss", "'count', 'cross_entropy' or 'trace'", "'mse'"),
        ("train.logit_scale=0", "train.logit_scale", "greater than 0", "0"),
        ("train.label_smoothing=1", "train.label_smoothing", "less than 1", "1"),
        ("train.label_smoothing=-0.1", "train.label_smoothing", "greater than or equal to 0", "-0.1"),
        ("train.schedule=linear", "train.schedule", "'cosine', 'constant' or 'decay'", "'linear'"),
        ("train.warmup=1", "train.warmup", "less than 1", "1"),
        ("train.latent_clip=0", "train.latent_clip", "greater than 0", "0"),
        ("train.recalibrate=-1", "train.recalibrate", "greater than or equal to 0", "-1"),
        ("train.recalibrate=2.5", "train.recalibrate", "a whole number", "2.5"),
        ("net.surrogate=atan", "net.surrogate", "'fast_sigmoid', 'arctan', 'triangular' or 'sigmoid'", "'atan'"),
        ("net.beta=1.5", "net.beta", "less than or equal to 1", "1.5"),
        ("net.beta=-0.1", "net.beta", "greater than or equal to 0", "-0.1"),
        ("net.beta=[0.5, 2]", "net.beta.1", "less than or equal to 1", "2"),
        ("net.beta=nan", "net.beta", "a finite number", "nan"),
        ("net.slope=0", "net.slope", "greater than 0", "0"),
        ("net.theta=-1", "net.theta", "greater than 0", "-1"),
        ("net.theta=high", "net.theta", "a number", "'high'"),
        ("net.theta.1=high", "net.theta.1", "a number", "'high'"),
        ("net.theta.1.rate=2", "net.theta.1.rate", "less than or equal to 1", "2"),
        ("net.theta.1.start=inf", "net.theta.1.start", "a finite number", "inf"),
        ("net.dropout=1", "net.dropout", "less than 1", "1"),
        ("net.binary=7", "net.binary", "true or false", "7"),
        ("net.notation=3", "net.notation", "text in quotes", "3"),
        ("net.steps=0", "net.steps", "greater than or equal to 1", "0"),
        ("net.norm=batch", "net.norm", "'step', 'shared' or 'none'", "'batch'"),
        ("name=3", "name", "text in quotes", "3"),
        ("seed=-1", "seed", "greater than or equal to 0", "-1"),
        ("data.validation_share=1", "data.validation_share", "less than 1", "1"),
        ("data.clip=256", "data.clip", "less than or equal to 255", "256"),
        ("data.bin_ms=0", "data.bin_ms", "greater than 0", "0"),
        ("paper.best=inf", "paper.best", "a finite number", "inf"),
    ],
)
def test_a_wrong_value_names_field_rule_and_value(setting, field, rule, shown):
    message = refused(setting)
    assert message.startswith(f"--set {setting}: {field}: must be {rule}")
    assert shown in message.rpartition("but is ")[2]


@pytest.mark.parametrize("setting", ["net.beta=true", "train.epochs=true", "net.theta=true", "train.lr='1e-3'"])
def test_truth_values_and_strings_are_no_numbers(setting):
    refused(setting)


def test_what_must_be_given_cannot_be_none():
    assert refused("train.lr=none") == "--set train.lr=none: train.lr is missing"
    assert "train.half_period is missing" in refused("train.half_period=none")


def test_a_long_value_is_cut():
    assert len(refused(f"train.lr={'x' * 500}").rpartition("but is ")[2]) <= 60


@pytest.mark.parametrize(
    ("setting", "says"),
    [
        ("net.theta={start=1, stop=2}", "net.theta: a threshold {start, stop, ...} needs one of rate, tau and steps"),
        ("net.theta={start=1, stop=2, rate=0.1, tau=3}", "needs one of rate, tau and steps"),
        ("net.theta={start=5, stop=2, rate=0.1}", "stop must be > start"),
        ("net.theta={stop=2, rate=0.1}", "start is missing"),
        ("train.correct=0.1", "train.incorrect < train.correct"),
        ("train.choose=last", "train.patience stops where accuracy no longer rises, but train.choose = 'last'"),
        ("train.warmup=0.1", "train.warmup belongs to train.schedule = 'decay', but the schedule is 'cosine'"),
        (
            "train.weight_decay=0.1",
            "train.weight_decay belongs to train.optimizer = 'adamw', but the optimizer is 'adam'",
        ),
        ("data.sensor=[4, 4]", "data.sensor belongs to your own data (data.file), but data.name is 'mnist'"),
        ("data.file=own.npz", "give either data.name, a built-in set, or data.file, your own"),
        ("data.name=none", "give either data.name, a built-in set, or data.file, your own"),
        ("sources={'net.bta'='x'}", "sources: no field is named 'net.bta'; did you mean 'net.beta'?"),
    ],
)
def test_fields_that_do_not_go_together(setting, says):
    assert says in refused(setting)


@pytest.mark.parametrize("setting", ["train.half_period=none", "data.sensor=[4, 4]"])
def test_the_table_is_not_named_twice(setting):
    table = setting.partition(".")[0]
    assert f"{table}: {table}." not in refused(setting)


# ---- Files with --set: each mistake names what it comes from

HEAD = "[data]\nname = 'mnist'\n[net]\nnotation = '784-10'\nbeta = 0.9\nslope = 1\ntheta = 2\n"
GOOD = HEAD + "[train]\nlr = 1e-3\n"
MISTAKES = {  # of a file, and what is said of them
    GOOD + "epoch = 3": "no field is named 'train.epoch'; did you mean 'train.epochs'?",
    GOOD + "batch = 0": "train.batch: must be greater than or equal to 1, but is 0",
    GOOD + "warmup = 0.1": "train.warmup belongs to train.schedule = 'decay', but the schedule is 'constant'",
    GOOD + "betas = [0.9, 1.5]": "train.betas.1: must be less than 1, but is 1.5",
    GOOD + "choose = 'last'\npatience = 3": "train.patience stops where accuracy no longer rises",
    GOOD + "[sources]\nsed = 'a'": "sources: no field is named 'sed'; did you mean 'seed'?",
    GOOD + "[sources]\nseed = 3": "sources.seed: must be text in quotes, but is 3",
    GOOD + "[sources]\n'train.epochs' = 3": "sources.train.epochs: must be text in quotes, but is 3",
    GOOD + "[paper]\nbest = 3\nmean = 3": "paper.sigma is missing",
    "sources = 3\n" + GOOD: "sources: must be a table, but is 3",
    "sources = ['seed', 'train.epochs']\n" + GOOD: "sources: must be a table, but is ['seed', 'train.epochs']",
    "title = 3\n" + GOOD: "title: must be text in quotes, but is 3",
    "sede = 3\n" + GOOD: "no field is named 'sede'; did you mean 'seed'?",
    "train = 3\n" + HEAD: "train: must be a table, but is 3",
    HEAD + "[[train]]\nlr = 1": "train: must be a table, but is a list of tables; write [train], in single",
    HEAD + "[train]\nbatch = 3": "train.lr is missing",
    HEAD
    + "[training]\nlr = 3": "no table is named [training]; the tables are [data], [net], [train], [paper], [sources]",
    GOOD.replace("theta = 2", "theta = { start = 1, stop = 2 }"): "net.theta: a threshold {start, stop, ...} needs one",
    GOOD.replace("theta = 2", "theta = 2\nglances = 9"): "net.steps must be a multiple of net.glances, 9, but is 100",
    GOOD.replace("name = 'mnist'", "train_limit = 3"): "data: give either data.name, a built-in set, or data.file",
}
HARMLESS = (["seed=3"], ["train.epochs=1"], ["seed=3", "train.epochs=1"], ["title=x", "data.test_limit=7"])


@pytest.fixture
def written(tmp_path):
    """Write a file, and return what is said of it and settings; the file is called FILE there."""

    def said(text: str, settings: list[str]) -> str:
        path = tmp_path / "mine.toml"
        path.write_text(text)
        return refusal(read_experiment, path, settings).replace(str(path), "FILE")

    return said


@pytest.mark.parametrize("settings", HARMLESS, ids=" ".join)
@pytest.mark.parametrize("text", MISTAKES)
def test_a_mistake_of_the_file_is_the_files_whatever_is_set(written, text, settings):
    alone = written(text, [])
    assert alone.startswith(f"FILE: {MISTAKES[text]}")
    if "title = 3" in text:
        settings = [setting for setting in settings if not setting.startswith("title")]
    assert written(text, settings) == alone


@pytest.mark.parametrize(
    ("setting", "says"),
    [
        ("seed=-1", "seed: must be greater than or equal to 0, but is -1"),
        ("paper.best=3", "paper.mean is missing; paper.sigma is missing"),
        ("net.steps=0", "net.steps: must be greater than or equal to 1, but is 0"),
        ("data.test_file=x.npz", "data.test_file belongs to your own data (data.file), but data.name is 'mnist'"),
        ("net.glances=9", "net.steps must be a multiple of net.glances, 9, but is 100"),
    ],
)
def test_a_mistake_of_a_setting_is_the_settings_whatever_is_in_the_file(written, setting, says):
    assert written(GOOD, [setting, "train.epochs=3"]).startswith(f"--set {setting}: {says}")
    both = written(GOOD + "batch = 0", [setting, "train.epochs=3"])
    assert f"--set {setting}: {says}" in both
    assert "FILE: train.batch: must be greater than or equal to 1, but is 0" in both


@pytest.mark.parametrize(
    ("text", "settings", "said"),
    [
        # the file and a setting do not go together: without the setting all would be well
        (
            GOOD + "warmup = 0.1\nschedule = 'decay'",
            ["train.schedule=constant"],
            "--set train.schedule=constant: train.w",
        ),
        (
            GOOD + "correct = 0.9",
            ["train.incorrect=0.95"],
            "--set train.incorrect=0.95: train.incorrect < train.correct",
        ),
        (GOOD + "incorrect = 0.9", ["train.correct=0.85"], "--set train.correct=0.85: train.incorrect < train.correct"),
        # a setting mends one field, and another mistake of the file is seen only then
        (HEAD + "[train]\nwarmup = 0.1", ["train.lr=1"], "FILE: train.warmup belongs to train.schedule"),
        (HEAD + "[sources]\nsed = 'a'", ["train.lr=1", "seed=3"], "FILE: sources: no field is named 'sed'"),
        # a setting takes the place of what is wrong in the file
        ("seed = -1\n" + GOOD, ["seed=-2"], "--set seed=-2: seed: must be greater than or equal to 0, but is -2"),
    ],
)
def test_fields_that_do_not_go_together_name_what_is_at_fault(written, text, settings, said):
    assert written(text, settings).startswith(said)


def test_a_setting_can_mend_a_file(tmp_path):
    path = tmp_path / "mine.toml"
    path.write_text("seed = -1\n" + GOOD + "warmup = 0.1")
    assert read_experiment(path, ["seed=2", "train.warmup=0"]).seed == 2


# ---- Sources


def test_a_figure_set_by_hand_says_so():
    changed = with_values(MNIST, ["train.lr=1", "net.theta.0.start=3"])
    assert changed.sources["train.lr"] == f"set by hand; before: {MNIST.sources['train.lr']}"
    assert changed.sources["net.theta"] == f"set by hand; before: {MNIST.sources['net.theta']}"
    others = set(MNIST.sources) - {"train.lr", "net.theta"}
    assert all(changed.sources[key] == MNIST.sources[key] for key in others)


def test_a_figure_set_to_what_it_was_keeps_its_source():
    same = [f"train.lr={MNIST.train.lr}", f"net.theta.0.start={MNIST.net.theta[0].start}", "net.clip=none"]
    assert with_values(MNIST, same) == MNIST


def test_a_field_without_a_source_gets_none():
    assert "train.precision" not in with_values(MNIST, ["train.precision=tf32"]).sources


def test_a_field_whose_name_only_begins_alike_keeps_its_source():
    assert with_values(SHD, ["net.steps=3"]).sources == SHD.sources
    assert with_values(SHD, ["data.steps=3"]).sources["data.bin_ms"] == SHD.sources["data.bin_ms"]


def test_setting_twice_is_told_once():
    changed = with_values(with_values(MNIST, ["train.lr=1", "train.lr=2"]), ["train.lr=3"])
    assert changed.sources["train.lr"].count("set by hand") == 1


# ---- Laws


@given(experiments, numbers, st.integers(1, 10**9), shares)
def test_what_is_set_is_there_and_setting_is_idempotent(spec, lr, epochs, beta):
    settings = [f"train.lr={lr!r}", f"train.epochs={epochs}", f"net.beta={beta!r}"]
    changed = with_values(spec, settings)
    assert (changed.train.lr, changed.train.epochs, changed.net.beta) == (lr, epochs, beta)
    assert with_values(changed, settings) == changed  # no sources to grow here
    back = [f"train.lr={spec.train.lr!r}", f"train.epochs={spec.train.epochs}", f"net.beta={spec.net.beta!r}"]
    assert with_values(changed, back) == spec


@given(rises)
def test_a_threshold_set_by_its_parts_is_the_threshold_set_whole(rise):
    inline = "{" + ", ".join(f"{key} = {value!r}" for key, value in rise.items()) + "}"
    whole = with_values(MNIST, [f"net.theta.1={inline}"])
    parts = with_values(
        MNIST,
        [
            "net.theta.1={start=1, stop=2, rate=1}",
            "net.theta.1.rate=none",
            *(f"net.theta.1.{k}={v!r}" for k, v in rise.items()),
        ],
    )
    assert whole.net.theta == parts.net.theta
    assert as_values(whole.net.theta[1]) == rise


@given(st.text(max_size=30), st.sampled_from(["", "train.lr=", "net.theta=", "title=", "net.theta.0.", "sources."]))
def test_whatever_is_set_works_or_is_refused_in_words(text, before):
    try:
        with_values(MNIST, [before + text])
    except ValueError as error:
        said = str(error)
        assert said.startswith("--set ")

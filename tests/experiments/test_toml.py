"""TOML files made to harm, and those that people write by mistake: read, or refused at once in one line that helps."""

import numpy as np
import pytest

from bitspike.data.toml import LARGEST, parse_toml
from bitspike.experiments.presets import preset_or_file
from bitspike.experiments.schema import Experiment, experiment, read_experiment, with_values

BASE = """\
[data]
name = "coding"
[net]
notation = "100Dense50Dense1"
beta = 0.95
slope = 25
theta = 1
[train]
lr = 1e-3
loss = "trace"
"""
TABLES = "the tables are [data], [net], [train], [paper], [sources]"


@pytest.fixture
def here(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return tmp_path


def written(folder, text=BASE, name="mine.toml"):
    path = folder / name
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return path


def refused(call, *arguments):
    with pytest.raises((ValueError, OSError)) as caught:
        call(*arguments)
    message = str(caught.value)
    assert "\n" not in message.replace(repr("\n"), "")
    return message


# ---- Made to harm: each of these hung, or was told by Python and not by us


@pytest.mark.parametrize(
    ("text", "says"),
    [
        (".".join("a" * 200_000) + " = 1\n", "it has a key of more than 32 parts"),
        ("[" + " . ".join(["a"] * 200_000) + "]\n", "it has a key of more than 32 parts"),
        ("x = {" + ".".join(['"a"'] * 100_000) + " = 1}\n", "it has a key of more than 32 parts"),
        ("[[" + ".".join(["'a'"] * 100_000) + "]]\n", "it has a key of more than 32 parts"),
        ("x = " + "[" * 200_000, "its lists or tables are nested too deeply"),
        ("x = " + "{a = " * 100_000, "its lists or tables are nested too deeply"),
        ("seed = " + "9" * 5_000, "it has a number of thousands of digits"),
        ("# " + "x" * LARGEST, "it has more than 1,048,576 bytes; an experiment has a few thousand"),
        (b"\0" * (LARGEST + 1), "it has more than 1,048,576 bytes; an experiment has a few thousand"),
        ("name = 'a\0b'", "(at line 1, column 10): name = 'a\0b'"),
        (b"\x80\x02}q\x00.", "it is not text in UTF-8 (byte 1 is 0x80); is it an experiment's file?"),
        (b"seed = 1 # \xe9t\xe9", "it is not text in UTF-8 (byte 12 is 0xe9); is it an experiment's file?"),
        (BASE.encode("utf-16"), "it is text in UTF-16; save it as UTF-8"),
        ("title = 2020-13-01", "(at line 1, column 13): title = 2020-13-01"),
        ("binary = True", "(at line 1, column 10): binary = True"),
    ],
    ids=range(15),
)  # fmt: skip
def test_a_file_made_to_harm_is_refused_at_once(text, says, tmp_path):
    path = written(tmp_path, text)
    message = refused(read_experiment, path)
    assert message.startswith(f"{path} is not valid TOML: ")
    assert message.endswith(says)


@pytest.mark.parametrize("parts", [1, 5, 32])
def test_keys_of_a_few_parts_are_read(parts):
    assert parse_toml(".".join("a" * parts) + " = 1")


@pytest.mark.parametrize("text", ["a" * 1_000_000, '"' * 1_000_000, "a." * 31 + "\n", "' '." * 20_000, "a " * 500_000])
def test_looking_for_long_keys_takes_no_time(text):
    with pytest.raises(ValueError):  # noqa: PT011
        parse_toml(text)


def test_an_endless_or_missing_file(tmp_path):
    (tmp_path / "zero.toml").symlink_to("/dev/zero")
    assert "more than 1,048,576 bytes" in refused(read_experiment, tmp_path / "zero.toml")


@pytest.mark.parametrize(
    ("line", "says"),
    [
        ("seed = 0x" + "f" * 9_000, "seed: must be less than 4294967296, but is a very large number"),
        ("seed = 2020-01-01", "seed: must be a whole number, but is 2020-01-01"),
        ("seed = 1e400", "seed: must be a finite number, but is inf"),
        ("x = " + "[" * 200 + "]" * 200, "no field is named 'x'"),
        ("'" + "y" * 10_000 + "' = 1", "no field is named 'yyyy"),
    ],
)
def test_values_that_python_would_not_write(line, says, tmp_path):
    message = refused(read_experiment, written(tmp_path, f"{line}\n{BASE}"))
    assert says in message
    assert len(message) < 3_000


def test_of_thousands_of_mistakes_a_few_are_told(tmp_path):
    wrong = "".join(f"k{i} = 1\n" for i in range(20_000))
    message = refused(read_experiment, written(tmp_path, wrong + BASE))
    assert message.endswith("; and 19995 more")
    assert message.count("no field is named") == 5


@pytest.mark.parametrize("text", [b"\xef\xbb\xbf" + BASE.encode(), BASE.replace("\n", "\r\n").encode()])
def test_a_byte_order_mark_and_windows_line_ends_are_fine(text, tmp_path):
    assert read_experiment(written(tmp_path, text)).net.beta == 0.95


# ---- Written by mistake


@pytest.mark.parametrize(
    ("text", "says"),
    [
        (BASE + "\nlr = 2", "; it is given twice: leave one of them out"),
        (BASE + "\n[net]\nclip = 1", "; the table [net] is there twice: write the fields of both below one of them"),
        (
            "file = 'a.npz'\n[net]\nhidden = [3]",
            "no field is named 'file' outside of the tables; it belongs below [data]",
        ),
        (
            BASE.replace("[train]", "[[train]]"),
            "train: must be a table, but is a list of tables; write [train], in single",
        ),
    ],
)
def test_fields_and_tables_in_the_wrong_place(text, says, tmp_path):
    line = refused(read_experiment, written(tmp_path, text))
    assert says in line
    assert "give either" not in line


@pytest.mark.parametrize(
    ("wrong", "right"),
    [
        ("network", "net"), ("model", "net"), ("Net", "net"), ("nets", "net"), ("dataset", "data"),
        ("training", "train"), ("optim", "train"), ("optimizer", "train"), ("trainer", "train"),
    ],
)  # fmt: skip
def test_a_wrong_table_names_the_right_one(wrong, right, tmp_path):
    path = written(tmp_path, BASE.replace(f"[{right}]", f"[{wrong}]"))
    assert refused(read_experiment, path) == f"{path}: no table is named [{wrong}]; {TABLES}; did you mean [{right}]?"


def test_a_table_of_another_world_lists_ours(tmp_path):
    path = written(tmp_path, BASE + "[qqq]\nx = 1\n")
    assert refused(read_experiment, path) == f"{path}: no table is named [qqq]; {TABLES}"


def test_a_setting_in_a_wrong_table():
    spec = preset_or_file("coding/fixed")
    assert refused(with_values, spec, ["network.beta=0.5"]).endswith("did you mean 'net.beta'?")
    assert refused(with_values, spec, ["network.x=1"]) == (
        f"--set network.x=1: no table is named [network]; {TABLES}; did you mean [net]?"
    )


@pytest.mark.parametrize(
    ("field", "line", "says"),
    [
        ("lr = 1e-3", 'lr = "1e-3"', "train.lr: must be a number, but is '1e-3'; write it without quotes: 1e-3"),
        ("lr = 1e-3", 'lr = ".01"', "train.lr: must be a number, but is '.01'; write it without quotes: 0.01"),
        ("theta = 1", "theta = ' 2'", "net.theta: must be a number, but is ' 2'; write it without quotes: 2"),
        ("beta = 0.95", "beta = [0.5, '0.6']",
         "net.beta.1: must be a number, but is '0.6'; write it without quotes: 0.6"),
        ("slope = 25", 'slope = 25\nbinary = "True"',
         "net.binary: must be true or false, but is 'True'; write it without quotes: true"),
        ("lr = 1e-3", 'lr = "fast"', "train.lr: must be a number, but is 'fast'"),
        ("lr = 1e-3", 'lr = "inf"', "train.lr: must be a number, but is 'inf'"),
        ("slope = 25", 'slope = 25\nbinary = "yes"', "net.binary: must be true or false, but is 'yes'"),
    ],
)  # fmt: skip
def test_a_number_in_quotes(field, line, says, tmp_path):
    path = written(tmp_path, BASE.replace(field, line))
    assert refused(read_experiment, path) == f"{path}: {says}"


@pytest.mark.parametrize(
    ("settings", "says"),
    [
        (
            ["train.epochs=3", "net.beta=0.5", "train.lr=-1"],
            "--set train.lr=-1: train.lr: must be greater than 0, but is -1",
        ),
        (["train.lr=-1", "train.lr=0"], "--set train.lr=0: train.lr: must be greater than 0, but is 0"),
        (
            ["train.epochs=0", "net.slope=1", "net.beta=7"],
            "--set net.beta=7: net.beta: must be less than or equal to 1, but is 7; "
            "--set train.epochs=0: train.epochs: must be greater than or equal to 1, but is 0",
        ),
        (["train.epochs=3", "train.schedule=cosine"], "--set train.schedule=cosine: train.half_period is missing"),
        (["train.epochs=3", "train.lr=none"], "--set train.lr=none: train.lr is missing"),
        (["seed=3", "net.theta={start=1, stop=2}"], "--set net.theta={start=1, stop=2}: net.theta: a threshold"),
        (["net.beta=0.5", "data.file=x.npz"], "--set data.file=x.npz: data: give either data.name"),
        (["train.epochs=3", "train.correct=0.1"], "--set train.correct=0.1: train.incorrect < train.correct must be"),
        (["train.epochs=3", "paper.best=3"], "--set paper.best=3: paper.mean is missing; paper.sigma is missing"),
        (["train.epochs=3", "sources={'net.bta'='x'}"], "--set sources={'net.bta'='x'}: sources: no field is named"),
    ],
)  # fmt: skip
def test_only_the_wrong_setting_is_named(settings, says):
    message = refused(with_values, preset_or_file("coding/fixed"), settings)
    assert message.startswith(says)


def test_a_wrong_field_of_the_file_does_not_blame_a_setting(tmp_path):
    path = written(tmp_path, BASE.replace("lr = 1e-3", "lr = -1"))
    assert refused(read_experiment, path, ["train.epochs=3"]) == f"{path}: train.lr: must be greater than 0, but is -1"
    path = written(tmp_path, BASE.replace("lr = 1e-3", ""))
    assert refused(read_experiment, path, ["train.epochs=3"]) == f"{path}: train.lr is missing"
    path = written(tmp_path, BASE + 'schedule = "cosine"\n')
    assert refused(read_experiment, path, ["train.epochs=3"]).startswith(f"{path}: train.half_period is missing")


@pytest.mark.parametrize(
    ("given", "says"),
    [
        (
            r"C:\data\x.npz",
            "is not valid TOML: Unescaped '\\' in a string (at line 2, column 13): file = \"C:\\data\\x.npz\"",
        ),
        (r"C:\Users\x.npz", 'is not valid TOML: Invalid hex value (at line 2, column 13): file = "C:\\Users\\x.npz"'),
        (r"C:\new\test.npz", "data.file: 'C:\\new\\test.npz' does not exist"),  # valid TOML, of another path
    ],
)
def test_a_windows_path_in_double_quotes(given, says, tmp_path):
    path = written(tmp_path, BASE.replace('name = "coding"', f'file = "{given}"'))
    message = refused(read_experiment, path)
    assert says in message
    assert message.endswith("; write a path with backslashes in single quotes, '...', or with /")


@pytest.mark.parametrize("line", [r"file = 'C:\new\x.npz'", 'file = "C:/new/x.npz"', r'file = "C:\\new\\x.npz"'])
def test_windows_paths_as_they_should_be(line, tmp_path):
    spec = read_experiment(written(tmp_path, BASE.replace('name = "coding"', line)))
    assert spec.data.file.name.endswith("x.npz")


def test_a_file_with_a_strange_name_that_is_there(tmp_path):
    (tmp_path / "a\tb.npz").touch()
    spec = read_experiment(written(tmp_path, BASE.replace('name = "coding"', r'file = "a\tb.npz"')))
    assert spec.data.file.name == "a\tb.npz"


# ---- What `train` takes


LINES = (
    "beside it with the lines [data], file = '{}' and, for events in t, time_unit = 'us' (or 'ms', 's'), and give that"
)


def test_data_in_place_of_an_experiment(here):
    np.savez(here / "mine.npz", images=np.zeros((2, 1, 4, 4), np.float32), labels=np.arange(2))
    assert refused(preset_or_file, "mine.npz") == (
        f"mine.npz holds data; an experiment is a preset or a TOML file: write mine.toml {LINES.format('mine.npz')}"
    )
    assert refused(preset_or_file, "gone.h5") == (
        f"gone.h5 does not exist; an experiment is a preset or a TOML file: write gone.toml {LINES.format('gone.h5')}"
    )


def test_a_folder_in_place_of_an_experiment(here):
    (here / "run").mkdir()
    assert refused(preset_or_file, "run") == "run is a folder, but an experiment is a preset or a TOML file"
    written(here / "run", name="experiment.toml")
    assert refused(preset_or_file, "run").endswith("TOML file; its experiment is run/experiment.toml")
    (here / "folder.toml").mkdir()
    assert refused(preset_or_file, "folder.toml").startswith("folder.toml is a folder")


def test_a_presets_name_is_not_hidden_by_a_folder(here):
    (here / "mnist" / "annealed").mkdir(parents=True)
    assert preset_or_file("mnist/annealed").name == "mnist/annealed"
    assert "its variants are mnist/float32" in refused(preset_or_file, "mnist")


@pytest.mark.parametrize(
    ("name", "says"),
    [
        ("gone.toml", "gone.toml does not exist; bitspike preset list shows the experiments that are built in"),
        ("mnist/anealed", "preset: no preset is named 'mnist/anealed'; did you mean 'mnist/annealed'?"),
    ],
)
def test_a_name_that_is_not_there(name, says, here):
    assert refused(preset_or_file, name) == says


def test_a_file_of_any_name_is_an_experiment(here):
    written(here, name="mine.cfg")
    assert isinstance(preset_or_file("mine.cfg"), Experiment)
    written(here, b"\x80\x02}q\x00.", name="weights.pt")
    assert "is not text in UTF-8" in refused(preset_or_file, "weights.pt")


def test_values_from_elsewhere_keep_their_place():
    assert refused(experiment, {"name": "x"}, "here").startswith("here: data is missing; net is missing; ")

"""The import is lean and the surface complete."""

import ast
import importlib
import pickle
import subprocess
import sys
from pathlib import Path

import pytest

import bitspike

OPTIONAL = ("matplotlib", "typer", "rich", "snntorch", "spikingjelly", "pandas", "scipy", "pydantic", "h5py")
LAZY = ("bitspike", "bitspike.data", "bitspike.train")


def python(code, *arguments):
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", code, *arguments], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.strip().splitlines()


def test_importing_loads_no_optional_library():
    code = f"""
import sys, bitspike
assert "torch" not in sys.modules
for name in bitspike.__all__:
    if name not in ("load_run", "train_on", "evaluate_on"):  # they need the extra `train`
        getattr(bitspike, name)
print([name for name in {OPTIONAL!r} if name in sys.modules])
"""
    assert python(code) == ["[]"]


@pytest.mark.parametrize(
    "arguments",
    [
        ["--help"],
        ["--version"],
        ["train", "--help"],
        ["evaluate", "--help"],
        ["bench", "--help"],
        ["reproduce", "static", "--help"],
        ["preset", "list"],
        ["preset", "show", "mnist/annealed"],
        ["data", "list"],
    ],
    ids=" ".join,
)
def test_a_command_that_computes_nothing_loads_no_torch(arguments, tmp_path, monkeypatch):
    monkeypatch.setenv("BITSPIKE_DATA", str(tmp_path))
    code = """
import sys
import bitspike.cli
assert "torch" not in sys.modules, "with the command line itself"
try:
    bitspike.cli.main()
except SystemExit:
    pass
print([name for name in ("torch", "numpy", "matplotlib", "h5py") if name in sys.modules])
"""
    assert python(code, *arguments)[-1] == "[]"


def test_the_version_is_known_without_anything_else():
    assert python("import sys, bitspike; print(bitspike.__version__, 'typing_extensions' in sys.modules)") == [
        f"{bitspike.__version__} False"
    ]


@pytest.mark.parametrize("name", bitspike.__all__)
def test_every_public_name_exists_and_says_what_it_is(name):
    assert getattr(bitspike, name).__doc__


def test_the_public_names_are_the_contract():
    contract = {
        "binarize",
        "lif",
        "LIFOutput",
        "BinaryLinear",
        "BinaryConv2d",
        "LIF",
        "build",
        "Relax",
        "Linear",
        "Constant",
        "ThresholdAnnealing",
        "count_loss",
        "trace_loss",
    }
    assert contract <= set(bitspike.__all__)
    assert sorted(set(bitspike.__all__)) == sorted(bitspike.__all__)


# ---- Names that are loaded where they are used


def test_dir_shows_what_is_public_and_nothing_else():
    shown = {name for name in dir(bitspike) if not name.startswith("__")}
    assert shown == {*bitspike.__all__, "analysis", "data", "nn", "ops", "schedules", "train"}
    assert {"__version__", "__doc__"} <= set(dir(bitspike))
    for package in (bitspike.data, bitspike.train):
        assert [name for name in dir(package) if not name.startswith("__")] == sorted(package.__all__)


@pytest.mark.parametrize("package", LAZY)
def test_type_checkers_see_what_python_loads(package):
    module = importlib.import_module(package)
    source = ast.parse(Path(module.__file__).read_text(encoding="utf-8"))
    block = next(node for node in source.body if isinstance(node, ast.If))  # if TYPE_CHECKING: ... else: ...
    told = {
        (node.module, alias.name)
        for node in block.body
        if isinstance(node, ast.ImportFrom)
        for alias in node.names
        if alias.name in module.__all__
    }
    mapping = next(node for node in ast.walk(block.orelse[-1]) if isinstance(node, ast.Dict))
    loaded = {
        (key.value, name.value)
        for key, value in zip(mapping.keys, mapping.values, strict=True)
        for name in ast.walk(value)
        if isinstance(name, ast.Constant)
    }
    assert told == loaded
    here = {node.name for node in source.body if isinstance(node, ast.FunctionDef)}
    assert {name for _, name in loaded} | here == set(module.__all__)


def test_a_star_brings_every_name():
    assert python("from bitspike import *; print(LIF.__name__, load_run.__name__)") == ["LIF load_run"]


@pytest.mark.parametrize(
    "use",
    [
        "data.datasets.open_dataset",
        "train.losses",
        *(pytest.param(use, marks=pytest.mark.slow) for use in ("data.load", "analysis", "nn.LIF", "suggest")),
    ],
)
def test_modules_are_attributes(use):
    assert python(f"import bitspike; print(bitspike.{use} is not None)") == ["True"]


@pytest.mark.parametrize("package", LAZY)
@pytest.mark.parametrize("name", ["nothing", "__wrapped__", "_private"])
def test_a_name_that_is_not_there_is_an_attribute_error(package, name):
    module = importlib.import_module(package)
    with pytest.raises(AttributeError, match=rf"module '{package}' has no attribute '{name}'"):
        getattr(module, name)


def test_a_name_is_the_same_object_everywhere():
    from bitspike.nn.neurons import LIF

    assert bitspike.LIF is bitspike.nn.LIF is LIF
    assert pickle.loads(pickle.dumps(bitspike.Relax(1.0, 2.0, 0.5))) == bitspike.Relax(1.0, 2.0, 0.5)
    assert pickle.loads(pickle.dumps(bitspike.build)) is bitspike.build


def test_what_needs_an_extra_says_what_to_install():
    code = """
import sys
sys.modules["pydantic"] = None
import bitspike
try:
    bitspike.load_run
except ModuleNotFoundError as error:
    print(error)
"""
    (line,) = python(code)
    assert line.endswith("pydantic, which is not installed; run: pip install 'bitspike[train]'")

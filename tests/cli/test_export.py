"""`bitspike export`: what is written, what it says, and what it refuses."""

import errno
import json
import subprocess
from pathlib import Path

import numpy as np
import pytest
import torch

import bitspike
from bitspike.deploy.engine import load_packed
from bitspike.deploy.packed import read_packed_file
from helpers.shipped import image_run


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    folder = tmp_path_factory.mktemp("run")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("BITSPIKE_DATA", str(folder / "root"))
        return image_run(folder)


def test_a_packed_file_holds_the_network(run, workplace, cli):
    status, out, err = cli("export", run, "--to", "packed")
    assert (status, err) == (0, "")
    path = workplace / "on-images.safetensors"
    assert out.splitlines() == [
        f"on-images ({run}): 4Conv3-AP2-36Dense3, 3 classes",
        "weights  144 of one bit each: 18 bytes",
        f"on-images.safetensors  {path.stat().st_size:,} bytes",
        "next: bitspike predict on-images.safetensors IMAGE.png",
    ]
    x = torch.rand(4, 1, 8, 8)
    net = bitspike.load_run(run)
    assert np.array_equal(load_packed(path)(x).spikes, net(x).spikes.detach().numpy())
    vector = read_packed_file(path).vector
    net.steps = vector.steps
    assert np.array_equal(net.scores(torch.from_numpy(vector.input((1, 8, 8)))).detach().numpy()[0], vector.scores)


def test_the_same_run_gives_the_same_bytes_over_an_earlier_export(run, workplace, cli):
    cli("export", run, "--to", "packed", "--out", "net.safetensors")
    before = (workplace / "net.safetensors").read_bytes()
    assert cli("export", run, "--to", "packed", "--out", "net.safetensors")[0] == 0
    assert (workplace / "net.safetensors").read_bytes() == before


def test_c_builds_and_passes_its_check(run, workplace, cli):
    status, out, err = cli("export", run, "--to", "c")
    assert (status, err) == (0, "")
    assert out.splitlines()[-1] == "next: make -C on-images-c check"
    first = json.loads(cli("export", run, "--to", "c", "--json")[1])["files"]
    (workplace / "on-images-c" / "notes.txt").write_text("mine")
    assert json.loads(cli("export", run, "--to", "c", "--json")[1])["files"] == first  # over the earlier one
    assert (workplace / "on-images-c" / "notes.txt").read_text() == "mine"
    done = subprocess.run(["make", "-s", "-C", "on-images-c", "check"], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert "ok" in done.stdout


@pytest.mark.parametrize("before", ["nothing", "an empty folder", "an earlier export"])
def test_a_full_disk_leaves_no_half_a_folder(run, workplace, cli, monkeypatch, before):
    if before == "an empty folder":
        (workplace / "out").mkdir()
    if before == "an earlier export":
        assert cli("export", run, "--to", "c", "--out", "out")[0] == 0
    there = sorted(workplace.rglob("*"))
    with monkeypatch.context() as patch:
        patch.setattr("bitspike.deploy.c_export.vector_source", fail_as_full)
        err = refused(cli, run, "--to", "c", "--out", "out")
    assert err.startswith("bitspike: out could not be written: no space left on device; free some space")
    assert sorted(workplace.rglob("*")) == there
    assert cli("export", run, "--to", "c", "--out", "out")[0] == 0
    assert (workplace / "out" / "test_vector.c").is_file()


def fail_as_full(*_):
    raise OSError(errno.ENOSPC, "No space left on device")


def test_a_page_is_one_file(run, workplace, cli):
    status, out, _ = cli("export", run, "--to", "html")
    assert status == 0
    assert out.splitlines()[-1] == "next: open on-images.html in a browser"
    assert (workplace / "on-images.html").read_text().startswith("<!doctype html>")
    assert cli("export", run, "--to", "html")[0] == 0  # over the earlier one


def test_a_packed_file_becomes_what_its_run_becomes(run, workplace, cli):
    assert cli("export", run, "--to", "packed", "--out", "net.safetensors")[0] == 0
    for to, ending in (("c", ""), ("html", ".html")):
        for given, name in ((run, "of-run"), ("net.safetensors", "of-file")):
            assert cli("export", given, "--to", to, "--out", f"{name}{ending}")[0] == 0
    pages = [(workplace / f"{name}.html").read_bytes() for name in ("of-run", "of-file")]
    assert sorted(pages[0]) == sorted(pages[1])  # the metadata may have another order
    files = {each.name: each.read_bytes() for each in (workplace / "of-run").iterdir()}
    assert {each.name: each.read_bytes() for each in (workplace / "of-file").iterdir()} == files


def test_a_pretrained_name_becomes_c_and_a_page(workplace, cli):
    status, out, err = cli("export", "mnist/best", "--to", "html")
    assert (status, err) == (0, "")
    assert out.startswith("mnist/best (mnist/best): ")
    assert (workplace / "mnist-best.html").is_file()
    told = json.loads(cli("export", "mnist/best", "--to", "c", "--json")[1])
    assert (told["run"], told["out"], told["next"]) == ("mnist/best", "mnist-best-c", "make -C mnist-best-c check")


def test_trials_give_the_best_of_them(run, workplace, cli):
    for name in ("trial-0", "trial-1"):
        trial = workplace / "trials" / name
        trial.mkdir(parents=True)
        for file in ("experiment.toml", "best.safetensors", "summary.json"):
            (trial / file).write_bytes((run / file).read_bytes())
    told = json.loads(cli("export", "trials", "--to", "packed", "--json")[1])
    assert Path(told["run"]).parent == Path("trials")
    assert told["weights"] == 144
    assert told["weight_bytes"] == 18
    assert told["bytes"] == sum(told["files"].values()) == (workplace / told["out"]).stat().st_size
    assert told["metadata"]["experiment"] == "on-images"


def refused(cli, *arguments):
    status, out, err = cli("export", *arguments)
    assert (status, out) == (1, "")
    assert err.count("\n") == 1
    return err


def test_what_is_refused(run, workplace, cli):
    assert refused(cli, run, "--to", "pack") == (
        "bitspike: --to: unknown form 'pack': did you mean 'packed'? known are packed, c, html\n"
    )
    assert "known are packed, c, html" in refused(cli, run, "--to", "nir")
    assert "holds no run" in refused(cli, workplace, "--to", "packed")
    needs = "export --to packed needs the folder of a run, as bitspike train makes it\n"
    assert refused(cli, "fashion/best", "--to", "packed") == (
        f"bitspike: fashion/best is a pretrained network, which is packed already: bitspike predict takes it; {needs}"
    )
    assert cli("export", run, "--to", "packed", "--out", "a.safetensors")[0] == 0
    assert refused(cli, "a.safetensors", "--to", "packed") == (
        f"bitspike: a.safetensors is packed already: bitspike predict takes it; {needs}"
    )
    assert refused(cli, run / "best.safetensors", "--to", "c").endswith(
        "best.safetensors is a file, and no packed network; "
        "give a run's folder, a packed file, or a pretrained network\n"
    )
    assert refused(cli, "fashion/bes", "--to", "c").startswith(
        "bitspike: fashion/bes does not exist: give a run's folder, a packed file, or a pretrained network; "
        "did you mean 'fashion/best'? pretrained are "
    )
    (workplace / "mine").mkdir()
    assert "mine is a folder, but a file is written; give --out mine/NAME.safetensors" in refused(
        cli, run, "--to", "packed", "--out", "mine"
    )
    (workplace / "mine" / "thesis.tex").write_text("mine")
    assert "mine is not empty and holds no earlier export --to c" in refused(cli, run, "--to", "c", "--out", "mine")
    assert "thesis.tex is a file, but a folder is needed" in refused(
        cli, run, "--to", "c", "--out", "mine/thesis.tex/c"
    )
    assert "is a file, but a folder is needed" in refused(
        cli, run, "--to", "packed", "--out", "mine/thesis.tex/a.safetensors"
    )
    assert (workplace / "mine" / "thesis.tex").read_text() == "mine"


@pytest.mark.parametrize("to", ["packed", "html"])
def test_other_files_are_not_written_over(run, workplace, cli, to):
    """Least of all the run's own weights."""
    weights = (run / "best.safetensors").read_bytes()
    err = refused(cli, run, "--to", to, "--out", run / "best.safetensors")
    assert f"best.safetensors exists and is no earlier export --to {to}; choose another --out" in err
    assert (run / "best.safetensors").read_bytes() == weights


def test_an_option_is_needed(run, cli):
    assert cli("export", run)[0] == 2

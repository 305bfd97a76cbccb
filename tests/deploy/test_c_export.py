"""Exported C is built by `make check`, here and for Cortex-M, and gives the spikes of the PyTorch network."""

import shutil
import subprocess
from dataclasses import replace

import numpy as np
import pytest
import torch

import bitspike
from bitspike.deploy.c_export import write_c
from bitspike.deploy.c_source.plain_vector import plain_vector
from bitspike.deploy.c_source.vector import fixed_answer
from bitspike.deploy.describe import describe
from bitspike.deploy.model import InputModel, LayerModel, NetworkModel
from bitspike.deploy.packing.answers import make_vector
from helpers.models import floats
from helpers.random_networks import random_network

FAST = "-O0 -DBS_PORTABLE"
STRICT = f"{FAST} -Wall -Wextra -Werror -pedantic"
HOSTILE = ('"; int x; //', "*/ ??/", "\\", "%s%n%1$p", "Größe 日本", "/*", '\\"', "'", "??)", "\\0")

pytestmark = pytest.mark.skipif(not shutil.which("make") or not shutil.which("cc"), reason="no make or C compiler")


def make(folder, *arguments):
    """Run make in a folder; return the finished process, its output as text."""
    command = ["make", "-C", str(folder), *arguments]
    return subprocess.run(command, capture_output=True, text=True, errors="replace", check=False, timeout=120)


def passes(ran):
    """Return the line of a passed check."""
    assert ran.returncode == 0, ran.stdout + ran.stderr
    (line,) = (line for line in ran.stdout.splitlines() if line.startswith("check: "))
    assert line.startswith("check: ok: ")
    return line


def small_model(**options):
    """Return a network of three layers on events, and its model."""
    net = bitspike.build("9-40-10", theta=[2.0, 1.0], beta=0.9, generator=torch.Generator().manual_seed(0)).eval()
    return net, describe(net, **options)


def exported(folder, net, model=None, **options):
    """Export a network with the answer of PyTorch."""
    model = model or describe(net)
    return write_c(model, folder, make_vector(net, model), **options)


# Dense with delays; convolutions, recurrent and adaptive neurons, glances, both readouts: see `random_network`.
@pytest.mark.parametrize("seed", [4, 14, 17, 31])
def test_random_networks_spike_as_in_pytorch(seed, tmp_path):
    folder = exported(tmp_path / "a folder", random_network(seed))
    passes(make(folder, "check", f"CFLAGS={STRICT}"))


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(100, 116))
def test_more_random_networks_spike_as_in_pytorch(seed, tmp_path):
    folder = exported(tmp_path, random_network(seed))
    passes(make(folder, "check", f"CFLAGS={STRICT}" + " -UBS_PORTABLE" * (seed % 2)))


def test_sanitizers_find_nothing(tmp_path):
    flags = "-fsanitize=address,undefined -fno-sanitize-recover=all"
    probe = tmp_path / "probe.c"
    probe.write_text("int main(void) { return 0; }\n")
    if subprocess.run(["cc", *flags.split(), str(probe), "-o", str(tmp_path / "probe")], check=False).returncode:
        pytest.skip("the compiler has no sanitizers")
    folder = exported(tmp_path / "c", random_network(3))
    passes(make(folder, "check", f"CFLAGS={STRICT} -UBS_PORTABLE {flags}"))


def test_real_sequences(tmp_path):
    net, model = small_model()
    folder = exported(tmp_path, net, model, real_input=True)
    assert "#define MODEL_EVENTS 0" in (folder / "model.h").read_text()
    passes(make(folder, "check", f"CFLAGS={STRICT}"))


def test_fixed_point_has_the_answer_of_the_engine(tmp_path):
    net = random_network(17)
    model = describe(net)
    vector = make_vector(net, model)
    folder = write_c(model, tmp_path, vector)
    passes(make(folder, "check", f"CFLAGS={STRICT}", "CPPFLAGS=-DBS_FIXED"))
    fixed = fixed_answer(model, vector)
    assert (fixed.membrane != vector.membrane).any()  # else a check in float32 would pass as well
    np.testing.assert_allclose(fixed.scores, vector.scores, atol=1e-2)


@pytest.mark.parametrize("notation", ["9-40-10", "5Conv2-AP2-20Dense10"])
@pytest.mark.parametrize("switches", ["", "-DBS_FIXED", "-UBS_PORTABLE"])
def test_gains_in_every_build(notation, switches, tmp_path):
    shape = (9,) if notation == "9-40-10" else (2, 5, 5)
    net = bitspike.build(notation, shape, theta=9.0, delays=[2, 3], gains=[15, 255]).eval()
    for block in net.layers:
        block.gain.gains.data.uniform_(0, block.gain.largest, generator=torch.Generator().manual_seed(1))
    net.layers[1].lif.theta = 300.0
    folder = exported(tmp_path, net)
    passes(make(folder, "check", f"CFLAGS={STRICT} {switches}"))
    assert (folder / "model.c").read_text().count(".largest_gain = ") == 2
    passes(make(folder, "check", f"CFLAGS={STRICT} {switches} -DBS_SMALL"))
    passes(make(folder, "check", f"CFLAGS={STRICT} {switches} -DBS_ONLY_COUNTS"))


def test_a_network_without_gains_has_no_fields_for_them(tmp_path):
    assert "gain" not in (exported(tmp_path, small_model()[0]) / "model.c").read_text()


def test_without_a_compiler_fixed_point_says_so(tmp_path, monkeypatch):
    monkeypatch.setattr("bitspike.deploy.c_source.vector.library", lambda: None)
    folder = exported(tmp_path, random_network(17))
    passes(make(folder, "check", f"CFLAGS={FAST}"))
    refused = make(folder, "check", f"CFLAGS={FAST}", "CPPFLAGS=-DBS_FIXED")
    assert "exported without a C compiler" in refused.stderr


def test_a_vector_is_drawn_where_none_is_given(tmp_path):
    net, model = small_model()
    write_c(model, tmp_path)
    assert "8 steps" in passes(make(tmp_path, "check", f"CFLAGS={FAST}"))
    vector = plain_vector(model)
    with torch.no_grad():
        output = net(torch.from_numpy(vector.input((9,))))
    assert (output.spikes[:, 0].numpy() == vector.spikes).all()
    assert vector.spikes.any()
    assert not vector.spikes.all()


def test_a_changed_weight_or_expected_bit_is_found(tmp_path):
    net, model = small_model()
    vector = make_vector(net, model)
    weight = model.layers[1].weight.copy()
    weight[3] ^= True
    other = replace(model, layers=(model.layers[0], replace(model.layers[1], weight=weight)))
    spikes, membrane, scores = vector.spikes.copy(), vector.membrane.copy(), vector.scores.copy()
    spikes[2, 4] ^= True
    membrane[1] = np.nextafter(membrane[1], np.float32(9))
    scores[9] = np.nextafter(scores[9], np.float32(9))
    wrong = replace(vector, spikes=spikes, membrane=membrane, scores=scores)
    for found, folder in (
        ("", write_c(other, tmp_path / "weight", vector)),
        ("1 spikes, 1 membranes and 1 scores differ", write_c(model, tmp_path / "vector", wrong)),
    ):
        ran = make(folder, "check", f"CFLAGS={FAST}")
        assert ran.returncode != 0
        (line,) = (line for line in ran.stdout.splitlines() if line.startswith("check: "))
        assert line.startswith(f"check: FAILED: {found}")


def test_the_sign_of_a_zero_is_not_compared(tmp_path):
    """PyTorch's product with one input of 0 and a weight of -1 is -0, and a decay of 0 keeps it so."""
    model = NetworkModel(
        "1-2",
        (1,),
        steps=4,
        readout="spikes",
        layers=(LayerModel("dense", (1, 1, 1), (2, 1, 1), np.zeros((2, 1), bool), beta=floats(0), theta=floats(1)),),
    )
    vector = plain_vector(model, density=1)
    assert not vector.membrane.any()
    negative = replace(vector, membrane=-vector.membrane, scores=-vector.scores)
    assert np.signbit(negative.membrane).all()
    for name, each in (("one", vector), ("other", negative)):
        passes(make(write_c(model, tmp_path / name, each), "check", f"CFLAGS={STRICT}"))


def test_flags_of_the_command_line_are_honoured(tmp_path):
    net, _ = small_model()
    folder = exported(tmp_path / "with a space", net)
    compiler = tmp_path / "compiler"
    compiler.write_text(f'#!/bin/sh\necho "$@" >> "{tmp_path}/log"\nexec cc "$@"\n')
    compiler.chmod(0o755)
    flags = ["CFLAGS=-O0 -ffast-math -DMINE=1", "LDFLAGS=-Wl,-O1", "LDLIBS=-lm", "CPPFLAGS=-DFIRST=1"]
    passes(make(folder, "check", f"CC={compiler}", *flags))
    (line,) = (tmp_path / "log").read_text().splitlines()
    ours = line.index("-std=c99 -ffp-contract=off -fno-fast-math")
    assert line.startswith("-DFIRST=1 -O0 -ffast-math -DMINE=1")
    assert line.index("-ffast-math") < ours < line.index("-Wl,-O1") < line.index("-lm")


def test_new_flags_build_anew(tmp_path):
    net, _ = small_model()
    folder = exported(tmp_path, net)
    passes(make(folder, "check", f"CFLAGS={FAST}"))
    assert make(folder, "check", "CC=false").returncode != 0


def test_equal_models_give_equal_files(tmp_path):
    net = random_network(5)
    first, second = exported(tmp_path / "one", net), exported(tmp_path / "two" / "deep", net)
    names = sorted(path.name for path in first.iterdir())
    assert {"Makefile", "main.c", "model.c", "model.h", "runtime.c", "runtime.h", "test_vector.c"} <= set(names)
    assert names == sorted(path.name for path in second.iterdir())
    for name in names:
        assert (first / name).read_bytes() == (second / name).read_bytes()
        assert str(tmp_path).encode() not in (first / name).read_bytes()


@pytest.mark.parametrize("answer", [0, 1, 4])
def test_hostile_class_names_are_only_data(answer, tmp_path):
    net, model = small_model(class_names=HOSTILE, metadata={"note": "*/ #error"}, input=InputModel("events"))
    vector = make_vector(net, model)
    winner = int(vector.scores.argmax())
    names = list(HOSTILE)
    names[winner], names[answer] = names[answer], names[winner]
    folder = write_c(replace(model, class_names=tuple(names)), tmp_path, vector)
    line = passes(make(folder, "check", f"CFLAGS={STRICT} -trigraphs"))
    assert line.endswith(f"class {winner} ({HOSTILE[answer]})")
    assert (folder / "model.c").read_text().isascii()
    assert "#error" not in (folder / "model.c").read_text()


def test_counts_take_as_many_bits_as_they_need(tmp_path):
    _, model = small_model()
    assert "MODEL_PLANES 8" in (write_c(model, tmp_path) / "model.h").read_text()
    assert "MODEL_PLANES 5" in (write_c(model, tmp_path, most_events=20) / "model.h").read_text()
    clipped = replace(model, input=InputModel("events", clip=3))
    assert "MODEL_PLANES 2" in (write_c(clipped, tmp_path) / "model.h").read_text()
    for most in (0, -1, 256, 1.5, True):
        with pytest.raises(ValueError, match=f"most_events must be 1..255, but is {most}"):
            write_c(model, tmp_path, most_events=most)


def test_what_cannot_be_written_is_refused(tmp_path):
    _, model = small_model()
    file = tmp_path / "file"
    file.write_text("")
    with pytest.raises(NotADirectoryError, match="is a file, but a folder is needed"):
        write_c(model, file)
    broken = replace(model.layers[0], beta=np.array([np.nan], np.float32))
    with pytest.raises(ValueError, match="layer 1"):
        write_c(replace(model, layers=(broken, model.layers[1])), tmp_path / "new")
    for name in ("x" * 5000, "\x1b[31m", "two\nlines"):
        with pytest.raises(ValueError, match="class name"):
            write_c(replace(model, class_names=(name,) * 10), tmp_path / "new")
    assert not (tmp_path / "new").exists()


@pytest.mark.parametrize("seed", [3, pytest.param(17, marks=pytest.mark.slow)])
def test_cortex_m_in_qemu(seed, tmp_path):
    for tool in ("arm-none-eabi-gcc", "qemu-system-arm"):
        if not shutil.which(tool):
            pytest.skip(f"{tool} is not installed")
    folder = exported(tmp_path / "a folder", random_network(seed))
    ran = make(folder, "qemu", "CFLAGS=-Os -Wall -Wextra -Werror -pedantic")
    assert ran.returncode == 0, ran.stdout + ran.stderr
    assert ran.stdout.count("check: ok: ") == 2


@pytest.mark.parametrize("kind", ["image", "events"])
def test_many_pools_do_not_overflow_a_small_stack(kind, tmp_path):
    for tool in ("arm-none-eabi-gcc", "qemu-system-arm"):
        if not shutil.which(tool):
            pytest.skip(f"{tool} is not installed")
    net = bitspike.build("3Conv3-MP2-AP1-AP1-AP2-3Conv1-MP1-AP1-AP1-AP1-12Dense3", (1, 10, 10), steps=4).eval()
    folder = exported(tmp_path, net, describe(net, input=InputModel(kind)))
    ran = make(folder, "qemu", "CFLAGS=-Os")
    assert ran.stdout.count("check: ok: ") == 2, ran.stdout + ran.stderr
    used = [int(line.split()[1]) for line in ran.stdout.splitlines() if line.startswith("stack: ")]
    assert len(used) == 2
    assert max(used) < (5000 if kind == "image" else 2600)  # of 8192


def test_a_stack_that_is_too_small_is_no_silent_loss(tmp_path):
    for tool in ("arm-none-eabi-gcc", "qemu-system-arm"):
        if not shutil.which(tool):
            pytest.skip(f"{tool} is not installed")
    folder = exported(tmp_path, random_network(4))
    ran = make(folder, "qemu-m4f", "CFLAGS=-Os", "LDFLAGS=-Wl,--defsym=STACK_BYTES=256")
    assert ran.returncode != 0
    assert "check: ok" not in ran.stdout


def test_the_header_says_how_events_become_steps(tmp_path):
    _, model = small_model(input=InputModel("events", bin_us=2500, steps=31, downsample=4, clip=3))
    header = (write_c(model, tmp_path) / "model.h").read_text()
    for line in ("MODEL_STEPS 31u", "MODEL_BIN_US 2500u", "MODEL_DOWNSAMPLE 4u", "MODEL_CLIP 3u"):
        assert f"#define {line} " in header
    unknown = (write_c(replace(model, input=InputModel()), tmp_path) / "model.h").read_text()
    assert "#define MODEL_STEPS 0u " in unknown
    assert "#define MODEL_BIN_US 0u " in unknown


def test_the_header_says_for_how_many_steps_an_image_is_shown(tmp_path):
    net = bitspike.build("2Conv3-32Dense10", (1, 6, 6), steps=45, glances=9).eval()
    header = (exported(tmp_path, net) / "model.h").read_text()
    assert "#define MODEL_STEPS 45u " in header
    assert "#define MODEL_IMAGE 1 " in header


CPLUSPLUS = """
#include "model.h"
static uint64_t state[MODEL_STATE_WORDS];
int main() { bs_reset(&model, state); return bs_step(&model, state, nullptr) || bs_steps(&model, state) != 1; }
"""


@pytest.mark.skipif(not shutil.which("g++") or not shutil.which("gcc"), reason="no g++")
def test_a_program_in_cplusplus_takes_it(tmp_path):
    _, model = small_model()
    model = replace(model, layers=(replace(model.layers[0], gains=np.arange(9, dtype=np.uint8)), *model.layers[1:]))
    folder = write_c(model, tmp_path)
    (folder / "program.cpp").write_text(CPLUSPLUS)
    build = (
        "gcc -DBS_PORTABLE -c model.c runtime.c && g++ -Wall -Wextra -Werror -DBS_PORTABLE program.cpp *.o -o program"
    )
    done = subprocess.run(f"{build} && ./program", shell=True, cwd=folder, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


TWO = """
#include "model.h"
extern const bs_model second;
static uint64_t state[2][MODEL_STATE_WORDS];
int main(void)
{
    bs_reset(&model, state[0]);
    bs_reset(&second, state[1]);
    return bs_step(&model, state[0], 0) || bs_step(&second, state[1], 0);
}
"""


def test_two_networks_share_a_program_as_the_docs_say(tmp_path):
    _, model = small_model()
    folder = write_c(model, tmp_path)
    (folder / "program.c").write_text(TWO)
    names = "-Dmodel=second -Dmodel_class_names=second_names -Dmodel_places=second_places"
    build = f"cc -DBS_PORTABLE -c model.c runtime.c && cc {names} -DBS_PORTABLE -c model.c -o second.o"
    done = subprocess.run(
        f"{build} && cc -DBS_PORTABLE program.c *.o -o program && ./program",
        shell=True,
        cwd=folder,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr


def test_a_folder_that_was_not_finished_is_known_by_its_header(tmp_path, monkeypatch):
    from bitspike.experiments.exports import EXPORTS

    def full(source, folder):
        raise OSError("no space left on device")

    monkeypatch.setattr("bitspike.deploy.c_export._copy", full)
    with pytest.raises(OSError, match="no space"):
        write_c(small_model()[1], tmp_path)
    assert EXPORTS["c"].is_one(tmp_path)

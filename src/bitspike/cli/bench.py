"""The command `bitspike bench`."""

from __future__ import annotations

import json
import shlex
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from bitspike.bench.known_peers import KNOWN
from bitspike.cli.app import app
from bitspike.cli.console import bars, echo, echo_json
from bitspike.cli.options import AsJson, Device
from bitspike.terminal import screen

if TYPE_CHECKING:
    import torch


@app.command()
def bench(
    case: Annotated[
        list[str] | None,
        typer.Argument(
            help="fashion, dvs128, dvs128-16, shd, layer16k, layer2k, growth (default: those for the device)."
        ),
    ] = None,
    against: Annotated[
        str,
        typer.Option(help=f"Libraries with commas between, of {', '.join(KNOWN)}; or all, or none."),
    ] = "all",
    device: Device = "auto",
    seconds: Annotated[float, typer.Option(min=0.0, help="Time for the rounds of one case.")] = 20.0,
    seeds: Annotated[
        int | None,
        typer.Option(min=2, help="Time so many networks trained together against one, in place of other libraries."),
    ] = None,
    out: Annotated[Path | None, typer.Option(help="Folder for bench.json and its pictures, or seeds.json.")] = None,
    as_json: AsJson = False,
) -> None:
    """Time whole training steps against other libraries, in turns: median, spread, memory, kernels, the floor."""
    from bitspike.bench.cases import select_cases
    from bitspike.bench.measure import Plan, Result, run
    from bitspike.bench.peers import absent, named
    from bitspike.bench.show import show
    from bitspike.experiments.assembly import pick_device
    from bitspike.files import write_text
    from bitspike.ops.buffers import keep_freed_memory

    keep_freed_memory()  # threads wait as by default: peers are measured here too
    chosen = pick_device(device)
    command = shlex.join(["bitspike", *sys.argv[1:]])
    if seeds is not None:
        _bench_seeds(case or [], seeds, chosen, seconds, command, out, as_json)
        return
    cases, peers = select_cases(case or [], chosen.type), named(against)

    def save(result: Result) -> None:
        if out is not None:
            write_text(out / "bench.json", json.dumps(result, indent=1) + "\n")

    with bars() as begin:
        result = run(
            Plan(cases, peers, chosen, seconds, command, not_installed=absent(against), begin=begin, done=save)
        )
    if out is not None:
        from bitspike.bench.picture import draw

        draw(result, out)
    if as_json:
        echo_json(result)
    else:
        show(result, screen())


def _bench_seeds(
    names: list[str], seeds: int, device: torch.device, seconds: float, command: str, out: Path | None, as_json: bool
) -> None:
    from bitspike.bench.seeds import compare, lines, select_step_cases
    from bitspike.files import write_text

    cases = select_step_cases(names, device.type)
    with bars() as begin:
        result = compare(cases, seeds, device, seconds, command, begin)
    if out is not None:
        write_text(out / "seeds.json", json.dumps(result, indent=1) + "\n")
    if as_json:
        echo_json(result)
        return
    for line in lines(result):
        echo(line)

"""The command `bitspike encode`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from bitspike.cli.app import app
from bitspike.cli.console import bars, echo, echo_json, say
from bitspike.cli.options import AsJson, SpikeSeed, Trim, require_free


@app.command()
def encode(
    files: Annotated[list[Path], typer.Argument(metavar="FILE.wav...", help="Recordings, one word each.")],
    out: Annotated[Path, typer.Option(help="FILE.npz, or FILE.h5 in the layout of the Spiking Heidelberg Digits.")],
    label: Annotated[
        list[int] | None,
        typer.Option(min=0, help="The class of the recordings: once for all, or once for each (default: 0)."),
    ] = None,
    seed: SpikeSeed = 0,
    trim: Trim = True,
    force: Annotated[bool, typer.Option("--force", help="Write over the file of --out if it exists.")] = False,
    as_json: AsJson = False,
) -> None:
    """Turn recordings into spikes of 700 units, by the cochlear model of the Spiking Heidelberg Digits."""
    from bitspike.data.progress import silent
    from bitspike.data.speech.cochlea import encode_speech
    from bitspike.data.speech.spike_files import as_events, require_spike_file, write_spikes
    from bitspike.data.speech.wav import read_wav

    labels = _labels(label or [0], len(files))
    require_spike_file(out, labels)
    require_free("--out", out, force=force)
    rows: list[dict[str, Any]] = []
    found = []
    with bars() as begin:
        tick = begin("recordings", len(files))
        inner = begin if len(files) == 1 else silent  # a bar for each of many would fill the screen
        for path, its in zip(files, labels, strict=True):
            sound = read_wav(path)
            spikes = encode_speech(sound.trimmed() if trim else sound, seed=seed, progress=inner)
            found.append(spikes)
            rows.append(
                {
                    "file": str(path),
                    "rate": sound.rate,
                    "channels": sound.channels,
                    "seconds": round(sound.seconds, 4),
                    "encoded_seconds": round(spikes.seconds, 4),
                    "spikes": len(spikes),
                    "label": its,
                }
            )
            tick()
    write_spikes(out, as_events(found, labels))
    if as_json:
        echo_json({"out": str(out), "seed": seed, "trim": trim, "recordings": rows})
        return
    for row in rows:
        if row["channels"] > 1:
            say(f"note: {row['file']}: {row['channels']} channels were mixed to one")
        echo(f"{row['file']}: {row['seconds']:.2f} s, {row['spikes']:,} spikes in {row['encoded_seconds']:.2f} s")
    echo(f"{len(rows)} sample{'s' * (len(rows) > 1)} in {out}")


def _labels(given: list[int], files: int) -> list[int]:
    if len(given) not in (1, files):
        raise ValueError(
            f"encode: --label must be given once, or once for each of the {files} files, but {len(given)} are"
        )
    return given * files if len(given) == 1 else given

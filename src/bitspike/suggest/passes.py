"""The drive of layers in a network that only runs as a whole: one pass for each layer, with those after it silent."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

from bitspike.nn.access import Neurons, Recorded, set_to_rest
from bitspike.nn.neurons import LeakyReadout
from bitspike.nn.recording import listening, require_one_shape, stop_recording
from bitspike.nn.unchanged import unchanged
from bitspike.suggest.drive import Drive, FiresAt, Firing, drive_of, peaks_with_feedback

_FEW = 0.01  # of the pairs of sample and neuron; where no more run otherwise than expected, rounding may be the cause


def measured_by_passes(net: nn.Module, batch: Any, layers: dict[str, Neurons], fires_at: FiresAt) -> dict[str, Drive]:
    """Return the drive of each layer by its name; layers are measured in the order of their first calls.

    The pass that measures a layer also shows whether the one before it fires as its peaks say. If it does not, its
    spikes come back to it, and it is measured again with them. The last layer has a pass of its own for that.
    """
    drives: dict[str, Drive] = {}
    last, settled = "", True  # the layer that was measured last, and whether its feedback is known
    while True:
        thetas = {name: drive.theta for name, drive in drives.items()}
        seen = _run(net, batch, layers, thetas, last)
        if not settled and last in seen and _hears_itself(layers[last], seen[last], drives[last]):

            def fire(theta: float, thetas: dict[str, float] = thetas, layer: str = last) -> Firing:
                return _run(net, batch, layers, thetas | {layer: theta}, layer)[layer]

            peaks = peaks_with_feedback(fire, drives[last])
            drives[last] = drive_of(last, layers[last].module, peaks, fires_at, feedback=True)
            settled = True
            continue
        if len(drives) == len(layers):
            return drives
        silent = [name for name in seen if name not in drives]
        if not silent:
            unused = ", ".join(name for name in layers if name not in drives)
            raise ValueError(
                f"measure_drive: net(batch) never calls {unused}, so there is no drive to measure; "
                "take layers that are not in use out of the network"
            )
        last, settled = silent[0], False
        drives[last] = drive_of(last, layers[last].module, seen[last].highest, fires_at)


def _hears_itself(neurons: Neurons, seen: Firing, drive: Drive) -> bool:
    """Return whether a layer runs otherwise than its free membranes say: its spikes come back to it.

    Without feedback a pair of sample and neuron fires where its peak reaches theta, and elsewhere rises to its peak.
    """
    if isinstance(neurons.module, LeakyReadout) or not seen.fired.any():
        return False
    expected = drive.peaks >= torch.tensor(drive.theta, dtype=drive.peaks.dtype)
    risen = torch.isclose(seen.highest, drive.peaks, rtol=1e-3, atol=1e-3 * drive.typical)
    otherwise = torch.where(seen.fired, ~expected, ~risen)
    return otherwise.double().mean().item() > _FEW


def _run(
    net: nn.Module, batch: Any, layers: dict[str, Neurons], thetas: dict[str, float], watched: str
) -> dict[str, Firing]:
    """Run `net` with the layers in `thetas` firing and others silent; return the watched and the first silent layer.

    The input of the silent one does not depend on the current thresholds of the layers after it.
    """
    seen: dict[str, Firing] = {}

    def look(name: str, call: Recorded) -> None:
        silent = name not in thetas
        if (silent and any(other not in thetas and other != name for other in seen)) or not (silent or name == watched):
            return
        if call.membrane is None:
            kind = type(layers[name].module).__name__
            raise ValueError(f"measure_drive: {name}, a {kind}, shows no membrane, so its drive cannot be measured")
        seen[name] = _joined(name, seen.get(name), call.spikes, call.membrane)

    with unchanged(net):
        stop_recording(net)
        _as_in_training(net)
        set_to_rest(net)
        for name, neurons in layers.items():
            if neurons.rest:
                raise ValueError(
                    f"measure_drive: {name} rests at a membrane of {neurons.rest:g}, but the drive is measured from 0; "
                    "give its neurons v_reset=0 or v_reset=None"
                )
            if name in thetas:
                neurons.write(thetas[name], initial=thetas[name])
            else:
                neurons.silence()
        with listening("measure_drive", layers, look):
            net(batch)
    return seen


def _joined(name: str, before: Firing | None, spikes: Tensor, membrane: Tensor) -> Firing:
    """Return which neurons have fired and their highest membranes, over this call and those before it."""
    fired, highest = spikes.amax(0) > 0, membrane.amax(0)
    if before is None:
        return Firing(fired, highest)
    require_one_shape(f"measure_drive: {name}", [before.highest[None], membrane])
    return Firing(before.fired | fired, torch.maximum(before.highest, highest))


def _as_in_training(net: nn.Module) -> None:
    """Put `net` in training mode, but not its dropout."""
    net.train()
    for module in net.modules():
        if any("Dropout" in base.__name__ for base in type(module).__mro__):
            module.training = False

"""The plain definition of the scan: T steps of Eq. 1-2 under autograd. Every fast twin is compared with it."""

from __future__ import annotations

from itertools import repeat

import torch
from torch import Tensor

from bitspike.ops.lif.scan import Scan
from bitspike.ops.lif.state import LIFOutput, LIFState
from bitspike.ops.lif.surrogate import spike


def run(scan: Scan) -> LIFOutput:
    """Compute Eq. 1-2 as written, under autograd."""
    u, z, a = scan.state[:3]
    current = scan.current.to(scan.dtype)
    # unbind, not current[t]: the gradient of indexing fills a whole [T, ...] tensor for every t.
    currents = repeat(current, scan.steps) if scan.static else current.unbind()
    spikes: list[Tensor] = []
    membrane: list[Tensor] = []
    rho, strength = (scan.adaptation.rho, scan.adaptation.strength) if scan.adaptation else (0.0, 0.0)
    threshold, center = scan.theta, scan.center
    if a is not None:
        threshold = scan.theta + strength * a
    for i in currents:
        drive = scan.beta * u + i
        if scan.recurrent is not None:
            drive = drive + _feedback(z, scan.recurrent, scan.recurrent_scale, scan.recurrent_grad)
        u = drive - (threshold * z).detach()
        if a is not None:
            a = rho * a + (1 - rho) * z
            threshold = scan.theta + strength * a
            center = scan.center + strength * a
        z = spike(u, threshold, center, scan.slope, scan.surrogate)
        spikes.append(z)
        membrane.append(u)
    return LIFOutput(
        torch.stack(spikes).to(scan.current.dtype),
        torch.stack(membrane) if scan.keep_membrane else None,
        LIFState(u, z, a),
    )


def _feedback(z: Tensor, recurrent: Tensor, scale: float, share: float) -> Tensor:
    """scale * (z @ recurrent.T); the gradient of z is `share` times autograd's, that of the weights is autograd's."""
    if share == 1:
        return scale * (z @ recurrent.T)
    through_spikes = share * (z @ recurrent.detach().T)
    # The bracket is 0: it only has a gradient.
    return scale * (z.detach() @ recurrent.T + (through_spikes - through_spikes.detach()))

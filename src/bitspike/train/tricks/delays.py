"""A trick that takes delays from soft ones, spread over many steps, to sharp ones that rounding hardly changes."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from bitspike.nn import Delay
from bitspike.schedules import Exponential
from bitspike.train.tricks.trick import Setup, Trick


class SharpenDelays(Trick):
    """The width of every soft delay falls from half of the longest delay to `train.delay_width`, exponentially.

    It does so in the first `train.delay_soft` of all iterations, and stays then. Networks with delays have this trick,
    others do not. Delays are held within 0 and the longest after every step of the optimizer.
    """

    name = "delays"
    for_delays = True
    lasts_all_epochs = True

    def __init__(self, setup: Setup) -> None:
        super().__init__(setup)
        self.delays = delays_of(setup.net)
        end = setup.config.delay_width
        steps = setup.config.delay_soft * setup.iterations
        self.widths = [Exponential(max(delay.longest / 2, end), end, steps) for delay in self.delays]

    def tensors(self) -> list[Tensor]:
        """Return the width of each delay."""
        return [delay.get_buffer("width") for delay in self.delays]

    def values(self, step: int) -> list[float]:
        """Return the widths of iteration `step`."""
        return [width(step) for width in self.widths]

    @torch.no_grad()
    def after_update(self) -> None:
        """Clamp the delays."""
        delays: list[Tensor] = [delay.delays for delay in self.delays]
        torch._foreach_clamp_min_(delays, 0.0)
        torch._foreach_clamp_max_(delays, [float(delay.longest) for delay in self.delays])


def delays_of(net: nn.Module) -> list[Delay]:
    """Return the delays of a network, from the first layer to the last."""
    return [module for module in net.modules() if isinstance(module, Delay)]

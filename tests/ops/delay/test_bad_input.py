"""Each wrong argument of `delay` is one line that says where, the rule and what came."""

import pytest
import torch

from bitspike import delay
from bitspike.ops.checks import NotFiniteError

RIGHT = {"spikes": torch.zeros(4, 2, 3), "delays": torch.ones(3)}
NAN = float("nan")


@pytest.mark.parametrize(
    ("wrong", "error", "says"),
    [
        ({"spikes": [[[1.0]]]}, TypeError, "spikes must be a torch.Tensor, but is a list"),
        ({"spikes": torch.zeros(4, 2, 3, dtype=torch.uint8)}, TypeError, "spikes must be floating .* spikes.float()"),
        ({"spikes": torch.zeros(2, 3)}, ValueError, r"spikes must be \[T, B, N, ...\].*\[2, 3\].*cannot be delayed"),
        ({"spikes": torch.zeros(0, 2, 3)}, ValueError, r"at least one step, but has shape \[0, 2, 3\]"),
        ({"delays": [1.0] * 3}, TypeError, r"delays must be a torch.Tensor \[N\], but is a list"),
        ({"delays": torch.ones(3, dtype=torch.bool)}, TypeError, "real numbers of steps, but has dtype torch.bool"),
        ({"delays": torch.ones(4)}, ValueError, r"delays must be \[3\], .* of the spikes \[4, 2, 3\].*shape \[4\]"),
        ({"delays": torch.ones(1, 3)}, ValueError, r"delays must be \[3\], .*shape \[1, 3\]"),
        ({"delays": torch.ones(3, device="meta")}, ValueError, "delays is on meta but spikes on cpu; move one"),
        ({"delays": torch.tensor([1.0, NAN, 0])}, NotFiniteError, "delays must be finite, but 1 of 3 are not"),
        ({"delays": torch.tensor([1.0, float("inf"), 0])}, NotFiniteError, "delays must be finite, but 1 of 3 are"),
        ({"delays": torch.tensor([1.0, -0.5, 0])}, ValueError, r"in 0..1, but 1 of 3 are not \(first: -0.5\)"),
        ({"delays": torch.tensor([1.0, 4, 3]), "longest": 2}, ValueError, r"in 0..2, but 2 of 3 .*larger `longest`"),
        ({"longest": -1}, ValueError, "longest must be a whole number of steps >= 0, but is -1"),
        ({"longest": 2.5}, ValueError, "longest must be a whole number of steps >= 0, but is 2.5"),
        ({"longest": True}, ValueError, "longest must be a whole number of steps >= 0, but is True"),
        ({"longest": 10**12}, ValueError, "longest must be at most 2147483647 steps, but is 1000000000000"),
        ({"delays": torch.full((3,), 1e30)}, ValueError, r"delays must be at most 2147483647 steps, .* 1e\+30"),
        ({"width": 0}, ValueError, "width must be a finite number > 0, but is 0.0"),
        ({"width": NAN}, ValueError, "width must be a finite number > 0, but is nan"),
        ({"width": torch.tensor(-1.0)}, ValueError, "width must be a finite number > 0, but is -1.0"),
        ({"width": torch.ones(3)}, ValueError, r"width must be one number or a 0-d tensor .* shape \[3\]"),
        ({"width": "wide"}, TypeError, "width must be a number, but is 'wide', a str"),
        ({"past": [0.0]}, TypeError, "past must be a torch.Tensor or None, but is a list"),
        ({"past": torch.zeros(2, 2, 3)}, ValueError, r"past must be \[1, 2, 3\], .*but has shape \[2, 2, 3\]"),
        ({"past": torch.zeros(1, 2, 3, device="meta")}, ValueError, "past is on meta but spikes on cpu"),
        ({"width": 1.0, "backend": "cuda"}, ValueError, "delay: backend must be one of .*but is 'cuda'"),
        ({"backend": "cuda"}, ValueError, "delay: backend must be one of .*but is 'cuda'"),
    ],
)
def test_it_is_refused_in_one_line(wrong, error, says):
    with pytest.raises(error, match=f"^delay: .*{says}|^{says}") as told:
        delay(**RIGHT | wrong)
    assert "\n" not in str(told.value)

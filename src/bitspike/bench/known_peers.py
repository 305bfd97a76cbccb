"""The libraries that bitspike is compared with. A new one is a line here and a module in `bitspike/bench/peers`."""

from __future__ import annotations

# Name: what to install. Each must come after torch, as it would else bring another build of it.
KNOWN = {
    "snntorch": "pip install snntorch==1.0.0",
    "spikingjelly": "pip install --no-deps spikingjelly==2.0.0 && pip install loguru scipy tqdm",
    "norse": "pip install --no-deps norse==1.1.0 && pip install nir nirtorch",
    "spyx": "pip install spyx==1.0.0 and JAX for your GPU",
}

"""A network as one web page that runs it, without a server and offline.

- `export.py`: `write_page` puts the parts below and the network into one file.
- `payload.py`: the network and its test vector as text that the page reads.
- `vectors.py`: a test vector, drawn from a seed, with the spikes that the NumPy definition gives.
- `page.html`, `page.css`: what is on the page, and how it looks.
- `layer.js`, `run.js`: inference in JavaScript, the twin of the definition; no page needed.
- `runner.js`: runs it in a worker, so that the page never freezes.
- `pointer.js`: strokes of a mouse or a finger, and files that are chosen or dropped.
- `image_input.js` with `ground.js`, `frame.js` and `glyphs.js`: drawings, pictures and samples as pixels.
- `sequence_input.js` with `events_file.js` and `patterns.js`: painted events, files and patterns.
- `digit_pad.js` with `saccades.js`: a drawn digit as events of a camera that moves.
- `maps.js`, `rasters.js`, `answer.js`, `playback.js`, `page.js`: what is seen of a run.
- `facts.js`: what is known about the network.
"""

from bitspike.deploy.page.export import MOST_BYTES, write_page

__all__ = ["MOST_BYTES", "write_page"]

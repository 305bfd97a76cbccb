"""The name of a picture's file is checked before the work."""

import pytest

from bitspike.analysis.picture_files import require_picture


def test_a_picture_is_a_png_file(tmp_path):
    with pytest.raises(ValueError, match=r"--out c.pdf: the picture is a PNG file; give it a name that ends in \.png"):
        require_picture(tmp_path.relative_to(tmp_path) / "c.pdf")

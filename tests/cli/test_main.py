"""`bitspike.cli.main`: what a person sees beside results."""

import warnings

from bitspike import cli


def test_a_warning_is_one_line(monkeypatch, capsys):
    monkeypatch.delenv("BITSPIKE_DEBUG", raising=False)
    monkeypatch.setattr(cli, "app", lambda: warnings.warn("NumPy runs\n  the network", UserWarning, stacklevel=1))
    before = warnings.showwarning
    with warnings.catch_warnings():
        warnings.simplefilter("always")
        cli.main()
    assert capsys.readouterr().err == "warning: NumPy runs the network\n"
    assert warnings.showwarning is before

"""Words for a person: the name that was meant."""

from bitspike.text import did_you_mean


def test_the_nearest_name_is_asked_for():
    assert did_you_mean("pack", {"packed": 1, "c": 2}) == "did you mean 'packed'? "
    assert did_you_mean("nir", ["packed", "c"]) == ""
    assert did_you_mean("fast", ["fashion"], cutoff=0.4) == "did you mean 'fashion'? "
    assert did_you_mean("fast", ["fashion"]) == ""

"""Bad search spaces: one line each that says where, what is required, what came, and what to do."""

import pytest

from bitspike.experiments.sweep.space import space_of
from helpers.bad_input import case, require_clear_line
from helpers.own_files import NET


@pytest.fixture(autouse=True)
def here(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


def searching(search, *settings, net=NET):
    """A call that reads mine.toml, with these lines in its table [search]."""

    def call():
        from pathlib import Path

        Path("mine.toml").write_text(f"[data]\nname = 'mnist'\n{net}\n{search}\n")
        space_of("mine.toml", settings)

    return call


def bad(name, search, says):
    """A case of these lines in [search]; the error begins with their place."""
    return case(name, ValueError, searching(f"[search]\n{search}"), f"mine.toml: [search]{says}")


def annealed(name, search, says):
    """A case of these lines in [search], of an experiment whose threshold is annealed."""
    net = NET.replace("theta = 2.0", "theta = { start = 1.0, stop = 2.0, rate = 0.1 }")
    return case(name, ValueError, searching(f"[search]\n{search}", net=net), f"mine.toml: [search]{says}")


CASES = [
    case("no space", ValueError, lambda: space_of("coding/fixed"), "coding/fixed has no search space: | by hand"),
    case("no preset", ValueError, lambda: space_of("fashion/aneal"), "preset: | did you mean 'fashion/annealed'"),
    case("no table", ValueError, searching(""), "mine.toml has no table [search] | add one | train.lr = {"),
    bad("empty table", "", " has nothing left to search"),
    bad("unknown field", "train.learning_rate = { low = 1, high = 2 }",
        ": no field is named 'train.learning_rate' | did you mean 'train.lr'"),
    bad("field of another library", "train.learnrate = { low = 1, high = 2 }", ": no field | did you mean 'train.lr'"),
    bad("unknown table", "network.beta = { low = 0.1, high = 0.2 }", ": | 'network.beta' | did you mean 'net.beta'"),
    bad("a whole table", '"train" = { low = 1, high = 2 }', ": 'train' is a table"),
    bad("unknown part", "net.theta.foo = { low = 1, high = 2 }", " net.theta.foo= | leads nowhere; net.theta is 2.0"),
    bad("layer that is not there", "net.theta.0.start = { low = 1, high = 2 }",
        " net.theta.0.start= | leads nowhere; net.theta is 2.0"),
    bad("rise of a fixed threshold", "net.theta.0.rise = { low = 1, high = 2 }",
        " net.theta.0.rise: net.theta.0 must be a threshold {start, stop, rate} | net.theta is 2.0"),
    bad("a value", "net.beta = 0.5", ": net.beta must be a table such as | low | but is 0.5"),
    bad("nothing", "net.beta = {}", " net.beta: give low and high | or a list of choices"),
    bad("wrong word", "net.beta = { lo = 0.1, hi = 0.2 }", " net.beta: no field is named 'lo'"),
    bad("only low", "net.beta = { low = 0.1 }", " net.beta: give low and high"),
    bad("empty range", "net.beta = { low = 0.5, high = 0.5 }", " net.beta: low must be < high | 0.5 and 0.5"),
    bad("turned range", "net.beta = { low = 0.9, high = 0.5 }", " net.beta: low must be < high"),
    bad("log of zero", "train.lr = { low = 0, high = 1, log = true }",
        " train.lr: low must be > 0 where log = true | is 0"),
    bad("not finite", "train.lr = { low = 1, high = inf }", " train.lr: high: must be a finite number"),
    bad("text", 'train.lr = { low = "1e-3", high = 1 }', " train.lr: low: must be a number | without quotes"),
    bad("no choices", "net.norm = { choices = [] }", " net.norm: choices: must have at least one value"),
    bad("mixed choices", "net.norm = { choices = ['step', 1] }",
        " net.norm: choices: must be of one kind | 'none' | numbers and texts"),
    bad("true and 1", "net.learn_beta = { choices = [true, 1] }", " net.learn_beta: choices: | of one kind"),
    bad("twice", "net.beta = { choices = [0.5, 0.5] }", " net.beta: choices: must differ"),
    bad("twice by name", "net.beta = { low = 0.1, high = 0.2 }\n'net.beta' = { low = 0.3, high = 0.4 }",
        " net.beta is given twice | in quotes | leave one of them out"),
    bad("lists", "net.theta = { choices = [[1, 2]] }", " net.theta: choices: must be numbers, texts"),
    bad("range and choices", "net.beta = { low = 0.1, choices = [0.5] }",
        " net.beta: choices and low do not go together"),
    bad("uneven steps", "net.theta = { low = 1, high = 2, step = 0.3 }", " net.theta: high must be | end at 1.9"),
    bad("log steps", "net.theta = { low = 1, high = 2, step = 0.5, log = true }", " net.theta: step and log"),
    bad("no step", "net.theta = { low = 1, high = 2, step = 0 }", " net.theta: step must be > 0"),
    bad("a step that is too small", "net.theta = { low = 1, high = 2, step = 5e-324 }",
        " net.theta: step is too small for a range of 1 to 2 | is 4.94066e-324"),
    bad("a step that decimals do not reach", "net.theta = { low = 1, high = 2, step = 1e-30 }",
        " net.theta: step is too small for a range of 1 to 2 | is 1e-30"),
    bad("half a number", "train.batch = { low = 1, high = 2.5, integer = true }",
        " train.batch: low, high and step must be whole numbers"),
    bad("a value that the experiment refuses", "net.beta = { low = 0.5, high = 1.5 }",
        " net.beta=1.5: net.beta | less than or equal to 1 | 1.5"),
    bad("a choice that the experiment refuses", "net.norm = { choices = ['step', 'batch'] }",
        " net.norm=\"batch\": net.norm | 'step'"),
    bad("no whole number", "train.batch = { low = 8, high = 64 }",
        " train.batch= | must be a whole number | add integer = true"),
    bad("two that contradict each other",
        "train.correct = { low = 0.5, high = 1.0 }\ntrain.incorrect = { low = 0.1, high = 0.6 }",
        " | train.incorrect=0.6 | train.incorrect < train.correct"),
    bad("a part of another", '"net.theta" = { low = 1, high = 2 }\n"net.theta.0" = { low = 1, high = 2 }',
        " net.theta.0 is a part of net.theta"),
    bad("the seed", "seed = { low = 1, high = 9, integer = true }", " seed cannot be searched: | lucky"),
    bad("the protocol", "train.protocol = { choices = ['paper', 'holdout'] }",
        " train.protocol cannot be searched: | never by the test set"),
    bad("the split", "data.validation_share = { low = 0.1, high = 0.2 }",
        " data.validation_share cannot be searched: all trials are judged by the same samples"),
    bad("how many samples", "data.train_limit = { low = 50, high = 1000, integer = true }",
        " data.train_limit cannot be searched: all trials are judged by the same samples"),
    bad("a field of before", "train.mirror = { choices = [true, false] }",
        " train.mirror cannot be searched: it was removed: | brought nothing"),
    annealed("a rise that is no number", "net.theta.rise = { choices = ['none', 1.0] }",
             " net.theta.rise: choices: a threshold must be a number, but one is 'none'"),
    annealed("a start that is no number",
             "net.theta.start = { choices = [true, false] }\nnet.theta.rise = { low = 1, high = 2 }",
             " net.theta.start: choices: a threshold must be a number, but one is True"),
    bad("condition on nothing", "train.momentum = { low = 0.1, high = 0.9, when = { 'train.optimiser' = 'sgd' } }",
        " train.momentum: when: no field is named 'train.optimiser' | 'train.optimizer'"),
    bad("condition never met",
        "train.optimizer = { choices = ['adam', 'adamw'] }\n"
        "train.momentum = { low = 0.1, high = 0.9, when = { 'train.optimizer' = 'sgd' } }",
        " train.momentum: when train.optimizer = 'sgd': | one of ['adam', 'adamw']"),
    case("all set by hand", ValueError, searching("[search]\nnet.beta = { low = 0.1, high = 0.9 }", "net.beta=0.5"),
         "mine.toml: [search] has nothing left to search"),
    case("set in part", ValueError, searching("[search]\nnet.theta = { low = 0.1, high = 0.9 }", "net.theta.0=0.5"),
         "--set net.theta.0=0.5: | leads nowhere"),
]  # fmt: skip


@pytest.mark.parametrize(("call", "error", "says"), CASES)
def test_bad_input_is_one_clear_line(call, error, says):
    require_clear_line(call, error, says)

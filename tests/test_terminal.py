"""What comes from files and servers is shown as text: it never steers the terminal, and no table cuts its numbers."""

import io
import json
import re
import tomllib
from pathlib import Path

import pytest
from rich.progress import Progress
from rich.table import Table

import bitspike.cli
from bitspike.cli import reproduce_coding
from bitspike.cli.console import echo, echo_lines, say
from bitspike.terminal import Label, draw, screen, table
from bitspike.text import printable
from helpers.files import fake_mnist

EVIL = "a\x1b]0;owned\x07\x1b[31mb\x9b2J\r\x08\u202ec\udcff\nd"
HARMLESS = r"a\u001b]0;owned\u0007\u001b[31mb\u009b2J\r\u0008\u202ec\udcff\nd"


@pytest.fixture
def here(workplace):
    return workplace


def harmless(text):
    return all(line.isprintable() for line in text.split("\n"))


# ---- One way out


def test_text_is_spelt_out():
    assert printable(EVIL) == HARMLESS
    assert printable("naïve ü 日本 😀 [x] :smile: \\n") == "naïve ü 日本 😀 [x] :smile: \\n"
    assert printable("\U000e0001\xa0") == r"\U000e0001\u00a0"


def test_lines_and_documents(capsys):
    echo(EVIL)
    say(EVIL)
    echo_lines("one\n" + EVIL)
    out, err = capsys.readouterr()
    assert out == f"{HARMLESS}\none\n{HARMLESS.replace(chr(92) + 'n', chr(10))}\n"
    assert err == f"{HARMLESS}\n"


def test_tables_and_bars(monkeypatch, capsys):
    monkeypatch.setenv("COLUMNS", "200")
    table = Table(EVIL, title=EVIL)
    table.add_row(EVIL)
    table.add_row("[/b] [red]x :smile:")
    console = screen()
    console.print(table)
    console.print(EVIL)
    out = capsys.readouterr().out
    assert harmless(out)
    assert "[/b] [red]x :smile:" in out
    with Progress(Label("{task.description}"), console=console, disable=True) as shown:
        task = shown.add_task(EVIL + "[/b]", total=1)
        console.print(shown.get_renderable())
        assert shown.tasks[task].total == 1
    out = capsys.readouterr().out
    assert harmless(out)
    assert "[/b]" in out


def test_no_command_prints_in_another_way():
    """A call of these in a command would send a file's text to the terminal as it is."""
    folder = Path(bitspike.cli.__file__).parent
    files = [*folder.glob("*.py"), folder.parent / "bench" / "show.py"]
    past = re.compile(
        r"typer\.(echo|secho|style)|\bConsole\(|\bprint\(|TextColumn\(|sys\.std(out|err)\.write|from_markup"
    )
    found = {
        (file.name, match.group())
        for file in files
        if file.name != "console.py"
        for match in past.finditer(
            file.read_text(encoding="utf-8").replace("console.print(", "").replace("screen().print(", "")
        )
    }
    assert not found


# ---- As a user meets it


def experiment(folder, name="evil", **more):
    values = {"name": name, "title": more.pop("title", "")}
    lines = [f"{key} = {json.dumps(value)}" for key, value in values.items()]
    table = {"name": "coding"} | more
    lines += ["[data]", *(f"{key} = {json.dumps(value)}" for key, value in table.items())]
    lines += ["[net]", 'notation = "100Dense50Dense1"', "beta = 0.95", "slope = 25", "theta = 1"]
    lines += ["[train]", "lr = 1e-3", "epochs = 1", 'loss = "trace"', 'protocol = "paper"', "tensorboard = false"]
    path = folder / "evil.toml"
    path.write_text("\n".join(lines), encoding="utf-8")
    return path


def test_an_experiments_name_does_not_reach_the_terminal(here, cli):
    path = experiment(here, name="\x1b]0;owned\x07\x1b[2Jx\x9b31m\nbitspike: all is well", title="\x1b[31m")
    status, out, err = cli("train", path, "--out", "run", "--device", "cpu")
    assert status == 0
    assert harmless(out)
    assert harmless(err)
    assert r"\u001b]0;owned\u0007\u001b[2Jx\u009b31m\nbitspike: all is well" in err
    assert not any(line.startswith("bitspike: all is well") for line in (out + err).splitlines())
    status, out, err = cli("evaluate", "run", "--device", "cpu")
    assert status == 0
    assert harmless(out + err)
    status, out, err = cli("preset", "show", path)
    assert status == 0
    assert harmless(out + err)
    assert tomllib.loads(out)["name"] == "\x1b]0;owned\x07\x1b[2Jx\x9b31m\nbitspike: all is well"


@pytest.mark.parametrize(
    "arguments",
    [
        ["train", "evil.toml", "--set", "data.name=\x1b[31m"],
        ["train", "evil.toml", "--set", "\x1b[31m=1"],
        ["train", "evil.toml", "--set", "train.lr=\x1b[31m"],
        ["train", "\x1b[31m"],
        ["train", "\x1b[31m.toml"],
        ["evaluate", "\x1b[31m"],
        ["data", "info", "\x1b[31m"],
        ["data", "fetch", "mnist", "--from", "\x1b[31m"],
        ["bench", "\x1b[31m", "--device", "cpu"],
    ],
    ids=lambda arguments: " ".join(arguments).replace("\x1b", "ESC"),
)
def test_errors_are_harmless(arguments, here, cli):
    experiment(here)
    status, out, err = cli(*arguments)
    assert status == 1
    assert err.startswith("bitspike: ")
    assert err.count("\n") == 1
    assert harmless(out + err)


def test_a_files_own_key_is_harmless_in_the_error(here, cli):
    path = experiment(here)
    path.write_text('"\\u001b[31mred" = 1\n' + path.read_text(encoding="utf-8"), encoding="utf-8")
    status, _, err = cli("train", path)
    assert status == 1
    assert harmless(err)


def test_paths_are_shown_as_they_are(here, cli, monkeypatch, tmp_path):
    """Square brackets and colons mean nothing; what cannot be shown is spelt out."""
    root = tmp_path / "[red]a:smile:[/b]\x1b[31m"
    fake_mnist(root)
    monkeypatch.setenv("BITSPIKE_DATA", str(root))
    status, out, _ = cli("data", "list")
    assert status == 0
    assert harmless(out)
    assert r"[red]a:smile:[/b]\u001b[31m" in out
    status, _, err = cli("data", "verify", "mnist")
    assert status == 1
    assert harmless(err)


def test_a_bar_is_harmless_on_a_terminal(monkeypatch):
    stream = io.StringIO()
    stream.isatty = lambda: True
    monkeypatch.setattr("sys.stderr", stream)
    monkeypatch.setenv("TERM", "xterm")
    from bitspike.cli.console import bars

    with bars() as begin:
        begin("\x1b]0;owned\x07[/b]", 3)()
    assert "owned" in stream.getvalue()
    assert "\x1b]" not in stream.getvalue()
    assert "\x07" not in stream.getvalue()


# ---- Tables on narrow terminals


CODING = {
    "seeds": [0, 1, 2],
    "statistics_over": "the last 40 iterations, all seeds",
    "seconds": 10.8,
    "cases": {
        "annealed-released": dict.fromkeys(("exact", "near", "due", "active", "hidden_dead"), 0.97)
        | {"spikes": 188.6, "final_loss_median": 39098.4}
    },
    "claims": [
        {
            "case": "annealed-released",
            "claim": "annealed: stays active to the end",
            "holds": True,
            "evidence": "active in 98% of iterations; 0 of 3 seeds silent",
        }
    ],
}


@pytest.mark.parametrize("columns", [20, 40, 60, 80, 200])
def test_the_demos_table_is_whole(columns, monkeypatch, capsys):
    monkeypatch.setenv("COLUMNS", str(columns))
    reproduce_coding.show_coding(CODING, Path("out"), animation=False)
    out = capsys.readouterr().out
    assert "…" not in out
    for part in ("t=75", "t=68-76", "active", "97%", "188.6", "39,098"):
        assert re.search(rf"(?<![\w.,]){re.escape(part)}(?![\w,])", out), part
    above = out[: out.index("The paper's claims")].splitlines()[1:]
    assert max(map(len, above)) <= max(columns, 22)


@pytest.mark.parametrize("columns", [40, 60, 80])
@pytest.mark.parametrize("command", [["preset", "list"], ["data", "list"]])
def test_lists_are_whole(columns, command, here, cli, monkeypatch):
    monkeypatch.setenv("COLUMNS", str(columns))
    status, out, _ = cli(*command)
    assert status == 0
    assert "…" not in out
    for part in ("mnist/annealed", "99.12", "0.04") if command[0] == "preset" else ("nmnist-small", "absent"):
        assert part in out
    assert max(map(len, out.splitlines()[1:])) <= columns


def test_words_are_folded_before_numbers_are_taken_apart(capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "30")
    made = table(words=["what"], numbers=["one", "two"])
    made.add_row("a-very-long-name-without-a-space", "1,234.5", "9,876")
    draw(made, screen())
    out = capsys.readouterr().out
    assert "1,234.5  9,876" in out
    assert max(map(len, out.splitlines())) <= 30

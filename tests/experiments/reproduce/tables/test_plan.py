"""Which cells `bitspike reproduce static` trains: the paper's table, and ablations derived from its presets."""

from typing import get_args

import pytest
import typer

from bitspike.cli import app
from bitspike.cli.reproduce_table import table_command
from bitspike.experiments.assembly import RunOptions
from bitspike.experiments.comparison import differences
from bitspike.experiments.presets import VARIANTS, preset, preset_names
from bitspike.experiments.reproduce.catalog import TABLES
from bitspike.experiments.reproduce.static.table import STATIC
from bitspike.experiments.reproduce.tables import plan as plans
from bitspike.experiments.reproduce.tables import table as tables
from bitspike.experiments.reproduce.tables.report import write_report
from bitspike.experiments.reproduce.tables.table import BEST, PROTOCOLS, PaperTable
from bitspike.experiments.schema import with_values

ABLATIONS, TASKS = STATIC.ablations, STATIC.tasks


def plan(**options):
    return plans.plan(STATIC, **options)


def test_the_table_is_four_variants_of_two_tasks():
    cells = plan()
    assert [(cell.protocol, cell.task, cell.name) for cell in cells] == [
        ("paper", task, variant) for task in TASKS for variant in VARIANTS
    ]
    for cell in cells:
        expected = with_values(preset(f"{cell.task}/{cell.name}"), ["train.protocol=paper"])
        assert cell.spec == expected
        assert cell.spec.paper is not None
        assert cell.trials == 5


def test_settings_and_protocols_hold_for_every_cell():
    cells = plan(protocols=PROTOCOLS, ablations=True, settings=["data.train_limit=7"], ablation_trials=2)
    assert {cell.spec.data.train_limit for cell in cells} == {7}
    assert all(cell.spec.train.protocol == cell.protocol for cell in cells)
    assert {cell.trials for cell in cells if cell.name in ABLATIONS} == {2}
    assert (
        len({str(cell.folder) for cell in cells}) == len(cells) == 2 * (2 * 4 + 2 * len(ABLATIONS) - 2)
    )  # MNIST has Adam already


def changed(task, name):
    (cell,) = (cell for cell in plan(tasks=[task], ablations=True) if cell.name == name)
    return cell.spec, with_values(preset(f"{task}/annealed"), ["train.protocol=paper"])


@pytest.mark.parametrize("task", TASKS)
def test_thresholds_of_ablations_are_the_presets_ends(task):
    for name, end in (("at-inf", "stop"), ("at-0", "start")):
        spec, base = changed(task, name)
        assert spec.net.theta == [getattr(theta, end) for theta in base.net.theta]
        assert spec.net.model_copy(update={"theta": base.net.theta}) == base.net


def test_thresholds_that_are_not_a_list_or_not_annealed_are_held_too():
    settings = ["net.theta={start = 1.5, stop = 3.0, rate = 0.1}"]
    (cell,) = (c for c in plan(tasks=["mnist"], ablations=True, settings=settings) if c.name == "at-0")
    assert cell.spec.net.theta == 1.5
    settings = ["net.theta=[2.0, {start = 1.5, stop = 3.0, rate = 0.1}, 4.0]"]
    (cell,) = (c for c in plan(tasks=["mnist"], ablations=True, settings=settings) if c.name == "at-inf")
    assert cell.spec.net.theta == [2.0, 3.0, 4.0]


def test_each_ablation_changes_one_field_or_two_that_were_changed_alone():
    for task in TASKS:
        for cell in plan(tasks=[task], ablations=True):
            if cell.name in ABLATIONS:
                base = with_values(preset(f"{task}/annealed"), ["train.protocol=paper"])
                assert len(differences(base, cell.spec)) == (2 if cell.name == "moving-no-dropout" else 1)


def test_our_best_is_a_row_when_asked_for():
    (cell,) = plan(tasks=["fashion"], variants=["best"], protocols=["holdout"])
    assert cell.spec == with_values(preset("fashion/best"), ["train.protocol=holdout"])
    assert cell.spec.paper is None


def test_the_losss_scale_matters_to_sgd_only():
    spec, base = changed("fashion", "loss-not-over-T")
    assert spec.train.lr == 8.4e-2
    assert base.train.lr == 8.4e-4
    assert "loss-not-over-T" not in [cell.name for cell in plan(tasks=["mnist"], ablations=True)]


def test_ablations_can_be_named():
    names = [cell.name for cell in plan(tasks=["mnist"], ablations=["at-0", "moving", "at-0"])]
    assert names == [*VARIANTS, "at-0", "moving"]


def test_an_ablation_that_settings_have_made_already_is_no_cell():
    names = [cell.name for cell in plan(ablations=True, settings=["net.surrogate_center=current", "net.dropout=0"])]
    assert "moving" not in names
    assert "no-dropout" not in names
    assert "pooled" in names


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"settings": ["train.protocol=holdout"]}, "use --protocol"),
        ({"trials": 0}, "1 or more"),
        ({"ablation_trials": 0}, "1 or more"),
        ({"settings": ["net.bta=1"]}, "net.beta"),
    ],
)
def test_plans_that_cannot_be(options, says):
    with pytest.raises(ValueError, match=says):
        plan(**options)


def choices(name):
    """What an option of `reproduce static` may be."""
    optional, _ = get_args(table_command(STATIC).__annotations__[name])
    (choice,) = get_args(get_args(optional)[0])
    return [each.value for each in choice]


def test_the_command_knows_what_the_plan_knows():
    assert choices("variant") == [*VARIANTS, BEST]
    assert choices("task") == list(TASKS)
    assert choices("protocol") == list(PROTOCOLS)
    assert choices("ablation") == list(ABLATIONS)
    assert tables.VARIANTS == VARIANTS


def test_a_table_is_a_command_by_its_name():
    commands = typer.main.get_command(app).commands["reproduce"].commands
    assert commands.keys() == {"coding", *TABLES, "all"}
    for name, table in TABLES.items():
        assert commands[name].help.startswith(f"{table.title}: train every cell")
        assert {f"{task}/{row}" for task in table.tasks for row in VARIANTS} <= set(preset_names())


def test_another_table_needs_tasks_only(tmp_path):
    temporal = PaperTable("temporal", "The DVS128 and SHD table", "temporal data", ("dvs128", "shd"))
    cells = plans.plan(temporal, ablations=True)
    assert [f"{cell.task}/{cell.name}" for cell in cells] == [f"{t}/{v}" for t in ("dvs128", "shd") for v in VARIANTS]
    with pytest.raises(ValueError, match=r"reproduce temporal: .* holds no complete trial"):
        write_report(temporal, tmp_path, RunOptions())
    assert table_command(temporal).__doc__.startswith("The DVS128 and SHD table: train every cell")

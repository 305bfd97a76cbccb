"""Searches over the settings of an experiment: many trials in one study, by one process or by many machines.

A study is one Optuna study and one folder. Readers call `open_study(FOLDER)` of `studies.py`; it returns an
`OpenStudy` with `study` (Optuna's), `facts` (a `StudyFacts`) and `folder`.

The study's name is the experiment's name unless `--study` says otherwise. Its user attribute `bitspike` has the facts:

- `format` 1; `source`, the preset's name or the file's path; `experiment`, all values of the experiment before a trial
  changes them (`experiment(values, where)` reads them); `settings`, the list of `--set` key=value; `seed`
- `objectives`, a list of {`name`, `direction`}: first `accuracy` (on validation samples), then `spikes`, `dead` or
  `bits` where a second one was asked for; the order of Optuna's values
- `space`, what `Space.canonical()` returns; `sampler`, `pruner` (or "none"); `versions`; `created`

Its user attribute `samples` holds the digests of the data that its first trial was trained on.

A trial's number is its place in the study for ever: a trial whose worker died keeps number, settings and folder.
Its state is Optuna's: RUNNING (also while nobody works on it), COMPLETE, PRUNED, or FAIL. Failed trials do not count;
another one takes their place. Its user attributes:

- `settings`: dotted fields of the experiment and their values, as `--set` takes them, with `seed`
- `folder`: its run folder, relative to the study's, such as `trials/00012`
- `claim`: who works on it: `owner`, `place`, `host`, `pid`, `attempts` (how many times it was begun), `stuck`
- `result`: once it has ended: `ended` ("epochs", "patience", "dead", "nan" or "pruned"), `diverged` (true: it counts
  as chance accuracy), `accuracy`, `spikes` (a sample), `dead` (share), `bits` (of weights), `epochs`, `best_epoch`,
  `seconds`, `device`, `versions`, `host`
- `error`: of a failed trial, in one line; `surplus` true: it was one too many and was never trained

The folder: `study.json` (name, storage without its password, place, facts), `journal.log` (without `--storage`),
`trials/00012/` (a run's folder as `train` makes it; the test samples are not looked at, so `accuracy` in its
summary.json is null; last.ckpt goes once the result is told), `trials/.00012.lock` (held by the worker of the trial).

Files: `space.py` what is searched, `parameter.py` one searched field, `space_files.py` where spaces are kept,
`space_checks.py` what is refused when one is read, `data_fit.py` what is refused because of the data; `overview.py`
what a study has found, `chosen.py` a trial as an experiment, `stretch.py` a longer one; `facts.py` what a study is, and
how it stands; `objectives.py` what is optimized; `samplers.py` Optuna's samplers and pruners with seeds of their own;
`storage.py`, `journal.py`, `postgres.py` where a study is kept, and its lock; `address.py` a server's address without
its password, `connection.py` a server that may be frozen; `studies.py` opening; `claims.py` who trains which trial,
`own_trials.py` what a worker tells of its own; `heartbeat.py` signs of life; `training.py` one trial or several at
once; `worker.py` a process that trains, `local_worker.py` the same as its driver sees it; `driver.py` the process above
them.
"""

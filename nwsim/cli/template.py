"""The file that ``nwsim new-study`` starts a study from."""

from __future__ import annotations

from pathlib import Path

from nwsim._files import write_atomic
from nwsim.exceptions import ParameterError
from nwsim.study.parts import check_name

_TEMPLATE = '''"""NAME: how fast the squared error of a sample mean falls.

Aims
----
Show the shape of a study; replace every part of it.

Data-generating mechanisms
--------------------------
n_obs independent normal observations with mean 1 and standard deviation `scale`.

Estimands
---------
The mean.

Methods
-------
mean: the sample average.  median: the sample median.

Performance measures
--------------------
mse: squared error, averaged over replicates.
"""

import numpy as np

from nwsim.study import Claim, Contrast, Curve, Grid, Measure, Method, Profile, Study

TRUTH = 1.0


def draw(condition, rng):
    """Return the observations of one replicate."""
    return rng.normal(TRUTH, condition["scale"], size=condition["n_obs"])


def sample_mean(condition, data, rng):
    """Return the squared error of the average."""
    return {"mse": (data.mean() - TRUTH) ** 2}


def sample_median(condition, data, rng):
    """Return the squared error of the median."""
    return {"mse": (np.median(data) - TRUTH) ** 2}


STUDY = Study(
    name="NAME",
    label="NAME",
    seed=1,
    factors=(Grid({"n_obs": (100, 400, 1600), "scale": (1.0, 2.0)}),),
    draw=draw,
    methods=(Method("mean", sample_mean), Method("median", sample_median)),
    measures=(Measure("mse", "mean squared error"),),
    claims=(
        Claim(
            id="NAME_C1",
            statement="The squared error falls like 1/n.",
            quantity="mse",
            theory=-1.0,
            margin=0.1,
            rule="rate",
        ),
    ),
    curves=(Curve("local_slope", "mse", "local_slope"),),
    contrasts=(Contrast("median_over_mean", "mse", "method", "median", "mean", kind="ratio"),),
    profiles={
        "quick": Profile(50, rule="shows the shape of the tables"),
        "standard": Profile(2000, rule="relative MCSE of a squared error about sqrt(2/2000) = 3%"),
    },
)
'''


def write_template(name: str, folder: Path) -> Path:
    """Write a working study named ``name`` into ``folder``; an existing file is left alone.

    Raises
    ------
    ParameterError
        If the name cannot be a study's, or is taken.
    StoreError
        If the folder cannot be written.
    """
    check_name("study name", name)
    path = folder / f"{name}.py"
    if path.exists():
        raise ParameterError(f"study name {name!r} is taken: {path} exists")
    return write_atomic(path, _TEMPLATE.replace("NAME", name))

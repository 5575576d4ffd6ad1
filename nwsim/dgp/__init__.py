"""Data-generating mechanisms: regression functions, designs, noise.

A world is a law over regression functions of one Hölder class; ``world.draw(rng)`` gives
a frozen function. Importing the package registers the built-in families.
"""

from nwsim.dgp.designs import Design, design_names, make_design
from nwsim.dgp.domains import to_domain
from nwsim.dgp.functions import bumps as _bumps
from nwsim.dgp.functions import composite as _composite
from nwsim.dgp.functions import rough as _rough
from nwsim.dgp.functions import smooth as _smooth
from nwsim.dgp.functions.base import RegressionFunction, World
from nwsim.dgp.many_heads import HEAD_WORLDS, head_mechanism
from nwsim.dgp.mechanism import Mechanism, Region, Replicate, Sample
from nwsim.dgp.noise import Noise, make_noise, noise_names
from nwsim.dgp.projected import projected_errors, projected_mean
from nwsim.dgp.registry import make_world, register_world, world_names

__all__ = [
    "HEAD_WORLDS",
    "Design",
    "Mechanism",
    "Noise",
    "Region",
    "RegressionFunction",
    "Replicate",
    "Sample",
    "World",
    "design_names",
    "head_mechanism",
    "make_design",
    "make_noise",
    "make_world",
    "noise_names",
    "projected_errors",
    "projected_mean",
    "register_world",
    "to_domain",
    "world_names",
]

del _bumps, _composite, _rough, _smooth

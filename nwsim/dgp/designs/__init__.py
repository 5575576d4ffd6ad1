"""Laws of the inputs, with density, score and covariance."""

# The families register themselves when they are imported.
from nwsim.dgp.designs import bounded as _bounded
from nwsim.dgp.designs import unbounded as _unbounded
from nwsim.dgp.designs.base import Design, design_names, make_design, register_design

__all__ = ["Design", "design_names", "make_design", "register_design"]

del _bounded, _unbounded

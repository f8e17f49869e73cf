"""The impulse methods on the stiff-spring pendulum, against the limit of infinite stiffness (Lubich and Weiss 2014)."""

import numpy as np
import pytest

pytest.importorskip("matplotlib")
pytest.importorskip("scipy")
import stiff_spring_pendulum as pendulum  # noqa: E402


def errors(chain, kick, eps, steps, correction=True):
    """The largest errors in q and in P^T p."""
    start = pendulum.wide_swing(chain.links)
    limit = pendulum.limit_motion(chain, start, correction)
    run = pendulum.Run(chain, start, eps, pendulum.DURATION/steps, kick)
    return pendulum.largest_errors(run, limit, steps)


def order(x, y):
    return np.polyfit(np.log(x), np.log(y), 1)[0]


@pytest.mark.parametrize("kick", ["Mollified", "Projected"])
def test_error_is_of_order_2_in_the_step_and_1_in_eps(kick):
    """h is not restricted by eps: h omega goes up to 6000."""
    chain = pendulum.Chain(2)
    counts = [18, 25, 36]
    by_step = [errors(chain, kick, 1e-4, count) for count in counts]
    for component in np.transpose(by_step):
        assert 1.5 < order([1/count for count in counts], component) < 2.7
    all_eps = [1e-2, 3e-3, 1e-3]
    by_eps = [errors(chain, kick, eps, 600) for eps in all_eps]
    for component in np.transpose(by_eps):
        assert 0.85 < order(all_eps, component) < 1.15


def test_the_correcting_potential_matters():
    """Without sum I_j omega_j(q) the limit is another motion, of which the method is far away."""
    chain = pendulum.Chain(2)
    assert errors(chain, "Projected", 1e-4, 60)[0] < 2e-3
    assert errors(chain, "Projected", 1e-4, 60, correction=False)[0] > 0.05


def test_plain_kicks_do_not_converge_and_lose_the_actions():
    """The negative control: whatever the step, the error stays, because the vibrations do not keep their energy."""
    chain, start = pendulum.Chain(2), pendulum.wide_swing(2)
    assert min(errors(chain, "Plain", 1e-4, steps)[0] for steps in (60, 85)) > 0.03
    changes = {}
    for kick in pendulum.KICKS:
        actions = pendulum.Run(chain, start, 1e-3, 0.05, kick).sample_actions(300, 1)
        changes[kick] = np.abs(actions/start.actions(chain) - 1).max()
    assert changes["Plain"] > 0.3
    assert changes["Mollified"] < 0.03
    assert changes["Projected"] < 0.03

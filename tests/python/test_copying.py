"""copy, deepcopy, pickle and Python subclasses."""

import copy
import pickle

import openmm
import pytest
from openmm import unit
from openmmstiff import ZhangSkeelIntegrator, ZhangSkeelLangevinIntegrator

COPIES = {"copy": copy.copy, "deepcopy": copy.deepcopy, "pickle": lambda item: pickle.loads(pickle.dumps(item))}


@pytest.fixture(params=COPIES)
def duplicate(request):
    """Each way to duplicate an object."""
    return COPIES[request.param]


class Annealing(ZhangSkeelLangevinIntegrator):
    """What users do: a subclass with attributes and methods of its own."""

    def __init__(self, hot, cold):
        super().__init__(hot, 1/unit.picosecond, 2*unit.femtoseconds)
        self.cold = cold
        self.history = [hot]

    def cool(self):
        self.setTemperature(self.cold)
        self.history.append(self.cold)


def test_copies_have_the_settings(duplicate):
    original = ZhangSkeelLangevinIntegrator(310, 2, 0.003)
    original.setBeta(0.3)
    original.setRandomNumberSeed(5)
    original.setThermalizeStiffModes(False)
    made = duplicate(original)
    assert type(made) is ZhangSkeelLangevinIntegrator
    assert made.thisown
    assert openmm.XmlSerializer.serialize(made) == openmm.XmlSerializer.serialize(original)


def test_copies_are_independent(duplicate):
    original = ZhangSkeelIntegrator(0.002)
    made = duplicate(original)
    made.setBeta(0.5)
    made.setStepSize(0.001)
    assert original.getBeta() == 0.25
    assert original.getStepSize() == 0.002*unit.picoseconds


def test_copies_outlive_the_original(duplicate):
    original = ZhangSkeelLangevinIntegrator(300, 1, 0.002)
    made = duplicate(original)
    del original
    assert made.getTemperature() == 300*unit.kelvin


def test_a_copy_of_a_bound_integrator_is_free(waters, platform, duplicate):
    original = ZhangSkeelLangevinIntegrator(300, 1, 0.002)
    context = waters.context(original, platform)
    made = duplicate(original)
    with pytest.raises(openmm.OpenMMException, match="not bound"):
        made.step(1)
    other = waters.context(made, platform)
    made.step(1)
    assert (context.getStepCount(), other.getStepCount()) == (0, 1)


def test_subclasses_are_copied_as_what_they_are(duplicate):
    original = Annealing(400, 300)
    original.cool()
    made = duplicate(original)
    assert type(made) is Annealing
    assert made.history == [400, 300]
    assert made.getTemperature() == 300*unit.kelvin
    made.cold = 250
    made.cool()
    assert (made.getTemperature(), original.getTemperature()) == (250*unit.kelvin, 300*unit.kelvin)


def test_attributes_are_shared_by_copies_and_duplicated_by_deep_copies():
    original = Annealing(400, 300)
    assert copy.copy(original).history is original.history
    assert copy.deepcopy(original).history is not original.history
    pair = copy.deepcopy([original, original])
    assert pair[0] is pair[1]


def test_an_attribute_may_refer_to_the_integrator_itself():
    original = Annealing(400, 300)
    original.me = original
    made = copy.deepcopy(original)
    assert made.me is made


def test_subclasses_run(waters, platform):
    integrator = Annealing(400, 300)
    context = waters.context(integrator, platform)
    integrator.cool()
    integrator.step(2)
    assert context.getStepCount() == 2

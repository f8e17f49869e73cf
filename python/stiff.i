%module(package="openmmstiff") openmmstiff

// A new integrator needs nothing here: bindings.py takes the headers from OpenMMStiff.h, makes docstrings of their
// comments, and takes the units from them.

%include "std_string.i"
%include "factory.i"

%{
#include "OpenMMStiff.h"
#include "openmm/Integrator.h"
#include <exception>
#include <vector>

namespace {
/** Lets other Python threads run while C++ does. */
class WithoutGil {
public:
    WithoutGil() : state(PyEval_SaveThread()) {
    }
    ~WithoutGil() {
        PyEval_RestoreThread(state);
    }

private:
    PyThreadState* state;
};

// Between C++ and Python: what bindings.py has made lists of, and tuples. (To a list SWIG would append further results.)
// Nothing here is outside of Python's stable ABI, so that one library is for all Pythons.
PyObject* toPython(int value) {
    return PyLong_FromLong(value);
}
PyObject* toPython(double value) {
    return PyFloat_FromDouble(value);
}
PyObject* toPython(const std::string& value) {
    return PyUnicode_FromStringAndSize(value.data(), value.size());
}
template <class Elements> PyObject* tupleOf(const Elements& elements, int size) {
    PyObject* tuple = PyTuple_New(size);
    for (int i = 0; i < size; i++)
        PyTuple_SetItem(tuple, i, toPython(elements[i]));
    return tuple;
}
PyObject* toPython(const OpenMM::Vec3& value) {
    return tupleOf(value, 3);
}
template <class Element> PyObject* toPython(const std::vector<Element>& value) {
    return tupleOf(value, value.size());
}
void fromPython(PyObject* list, OpenMM::Vec3& value) {
    for (int i = 0; i < 3; i++)
        value[i] = PyFloat_AsDouble(PyList_GetItem(list, i));
}
void fromPython(PyObject* list, std::vector<int>& value) {
    for (int i = 0; i < PyList_Size(list); i++)
        value.push_back(PyLong_AsLong(PyList_GetItem(list, i)));
}
void fromPython(PyObject* list, std::vector<std::string>& value) {
    for (int i = 0; i < PyList_Size(list); i++)
        value.push_back(PyUnicode_AsUTF8AndSize(PyList_GetItem(list, i), nullptr)); // which can be encoded
}

/** Raises openmm.OpenMMException, as OpenMM's own methods do. */
void setPythonException(const std::exception& error) {
    PyObject* openmm = PyImport_ImportModule("openmm");
    PyObject* type = openmm == nullptr ? nullptr : PyObject_GetAttrString(openmm, "OpenMMException");
    if (type != nullptr)
        PyErr_SetString(type, error.what());
    Py_XDECREF(type);
    Py_XDECREF(openmm);
}
} // namespace
%}

%exception {
    try {
        $action
    }
    catch (const std::exception& error) {
        setPythonException(error);
        SWIG_fail;
    }
}

// The methods that take long enough for other threads to be given their turn.
%define %without_gil(METHOD)
%exception METHOD {
    try {
        WithoutGil withoutGil;
        $action
    }
    catch (const std::exception& error) {
        setPythonException(error);
        SWIG_fail;
    }
}
%enddef
%without_gil(*::step)
%without_gil(*::setVelocitiesToTemperature)
%without_gil(*::describeStiffMotion)
%without_gil(*::getPropagatedPositions)
%without_gil(*::computeSystemTemperature)
%without_gil(*::computeNumMicroSteps)
%without_gil(*::computeNumPenalizedPairs)
%without_gil(*::computeNumInertialBonds)
%without_gil(*::computeViolations)

// What C++ returns through references comes to Python as a list; bindings.py does the rest.
%include "typemaps.i"
%apply int& OUTPUT {int& particle, int& particle1, int& particle2};
%apply double& OUTPUT {double& inertia, double& distance, double& stiffness, double& compliance, double& damping};
%typemap(in, numinputs=0) std::string& (std::string value), OpenMM::Vec3& (OpenMM::Vec3 value),
                          std::vector<int>& (std::vector<int> value),
                          std::vector<std::string>& (std::vector<std::string> value) {
    $1 = &value;
}
%typemap(argout) std::string&, OpenMM::Vec3&, std::vector<int>&, std::vector<std::string>& {
    %append_output(toPython(*$1));
}
%typemap(argout) const std::string&, const OpenMM::Vec3&, const std::vector<int>&, const std::vector<std::string>& "";

// Lists, which bindings.py has checked.
%typemap(in) const OpenMM::Vec3& (OpenMM::Vec3 value), const std::vector<int>& (std::vector<int> value),
             const std::vector<std::string>& (std::vector<std::string> value) {
    fromPython($input, value);
    $1 = &value;
}
%typecheck(SWIG_TYPECHECK_POINTER) const OpenMM::Vec3&, const std::vector<int>&, const std::vector<std::string>& {
    $1 = PyList_Check($input);
}
%typemap(out) std::vector<int> {
    $result = toPython($1);
}

// Arrays come to Python as their bytes; _conversions.vectors() and array() do the rest.
%typemap(out) std::vector<OpenMM::Vec3> {
    std::vector<OpenMM::Vec3>& vectors = $1;
    $result = PyByteArray_FromStringAndSize(reinterpret_cast<const char*>(vectors.data()),
                                            vectors.size() * sizeof(OpenMM::Vec3));
}

%typemap(out) std::vector<double> {
    std::vector<double>& values = $1;
    $result = PyByteArray_FromStringAndSize(reinterpret_cast<const char*>(values.data()),
                                            values.size() * sizeof(double));
}

%pythoncode %{
import copy as _copy

from . import _conversions
%}

// The classes of OpenMM that ours build on. Integrator's own methods, such as getStepSize(), are inherited in Python.
%import(module="openmm") "openmm_classes.i"

%extend OpenMMStiff::StiffIntegrator {
%pythoncode %{
    # OpenMM's own setter, with the checks of ours.

    def setIntegrationForceGroups(self, groups):
        """
        Set which force groups act. By default all do.

        Parameters
        ----------
        groups : int or set of int
            bit flags: the forces of group i act if (groups&(1<<i)) != 0; or the set of the groups' indices, from 0 to
            31
        """
        remedy = "pass 0 to leave out all forces"
        super().setIntegrationForceGroups(_conversions.group_mask("groups", groups, remedy, zero=True))

    @staticmethod
    def _retype(integrator: openmm.Integrator) -> type:
        """Give a Python object the C++ pointer of its integrator's own class, in place of that of a base class."""
        derived = _downcast(integrator)
        owned = integrator.thisown
        integrator.thisown = False
        integrator.this = derived.this
        integrator.thisown = owned
        return type(derived)

    @classmethod
    def isinstance(cls, integrator):
        """
        Get whether an integrator is of this class, or of one derived from it, even if its Python object is merely an
        openmm.Integrator: as those that OpenMM made before openmmstiff was imported.

        Parameters
        ----------
        integrator : openmm.Integrator
            the integrator to ask about

        Returns
        -------
        bool
            whether cast() will accept it
        """
        return isinstance(integrator, cls) or (
            isinstance(integrator, openmm.Integrator) and isinstance(_downcast(integrator), cls))

    @classmethod
    def cast(cls, integrator):
        """
        Give an integrator of this class its own methods, if its Python object is merely an openmm.Integrator: as
        those that OpenMM made before openmmstiff was imported.

        Parameters
        ----------
        integrator : openmm.Integrator
            the integrator; a TypeError if it is not of this class, nor of one derived from it

        Returns
        -------
        Self
            the same Python object, which now is an instance of the integrator's class
        """
        if isinstance(integrator, cls):
            return integrator
        if not cls.isinstance(integrator):
            found = type(integrator)
            if found is openmm.Integrator:
                found = type(_downcast(integrator))
            raise TypeError(
                f"{cls.__name__}.cast() cannot convert an object of class {found.__module__}.{found.__name__}")
        integrator.__class__ = cls._retype(integrator)
        return integrator

    def __getstate__(self) -> tuple:
        attributes = {name: value for name, value in self.__dict__.items() if name != "this"}
        return openmm.XmlSerializer.serialize(self), attributes

    def __setstate__(self, state: tuple) -> None:
        xml, attributes = state
        self.this = openmm.XmlSerializer.deserialize(xml).this
        self._retype(self)
        self.__dict__.update(attributes)

    def __copy__(self) -> "StiffIntegrator":
        duplicate = openmm.XmlSerializer.clone(self)
        self._retype(duplicate)
        duplicate.__class__ = type(self)
        duplicate.__dict__.update((name, value) for name, value in self.__dict__.items() if name != "this")
        return duplicate

    def __deepcopy__(self, memo: dict) -> "StiffIntegrator":
        duplicate = self.__copy__()
        memo[id(self)] = duplicate
        for name, value in self.__dict__.items():
            if name != "this":
                duplicate.__dict__[name] = _copy.deepcopy(value, memo)
        return duplicate
%}
}

%extend OpenMMStiff::ConstraintPenalties {
%pythoncode %{
    def __copy__(self) -> "ConstraintPenalties":
        return self     # nothing of it can be changed

    def __deepcopy__(self, memo: dict) -> "ConstraintPenalties":
        return self

    def __reduce__(self) -> tuple:
        raise TypeError("ConstraintPenalties cannot be pickled: keep the XML of the System from before "
                        "penalizeConstraints(), and call it again")
%}
}

%ignore OpenMMStiff::getConstraintRevision;  // friends, for kernels
%ignore OpenMMStiff::getPairRevision;

// Made by bindings.py: docstrings, methods that convert units, the headers, and the classes that _downcast() tells.
#define OPENMM_EXPORT_STIFF
%include "bindings.i"

%inline %{
/** The same integrator; in Python, an object of the most derived class known to this module. */
OpenMM::Integrator* _downcast(OpenMM::Integrator* integrator) {
    return integrator;
}
%}

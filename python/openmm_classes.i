%module openmm

// What SWIG has to know of OpenMM's own module: that these classes are there.
namespace OpenMM {
class System;
class Context;
class Integrator {
public:
    virtual ~Integrator();

protected:
    Integrator();
};
}

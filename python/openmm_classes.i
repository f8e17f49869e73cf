%module openmm

// What SWIG has to know of OpenMM's own module: that this class is there.
namespace OpenMM {
class Integrator {
public:
    virtual ~Integrator();

protected:
    Integrator();
};
}

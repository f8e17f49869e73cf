#include "openmmstiff/SpookIntegrator.h"
#include "openmmstiff/StiffKernels.h"
#include "openmmstiff/internal/Checks.h"
#include "setup/Thermometer.h"
#include "openmm/OpenMMException.h"
#include "openmm/internal/ContextImpl.h"
#include <algorithm>
#include <cmath>

using namespace OpenMM;
using namespace OpenMMStiff;
using std::string;
using std::vector;

namespace {

// With which molecules keep their energy, and do not blow up.
constexpr double defaultDampingSteps = 0.25;

void requireNumber(bool valid, const char* what, double value, const char* remedy) {
    require(valid && std::isfinite(value), "SpookIntegrator: ", what, ", but is ", value, ". ", remedy);
}

void requireCompliance(double compliance) {
    requireNumber(compliance >= 0, "the compliance of a constraint must not be negative", compliance,
                  "Give 0 for the compliance of the integrator");
}

void requireDamping(double damping) {
    requireNumber(damping >= 0, "the damping time of a constraint must not be negative", damping,
                  "Give 0 for the damping of the integrator");
}

void requireDifferent(const vector<int>& particles) {
    require(!particles.empty(), "SpookIntegrator: a constraint needs at least one particle");
    vector<int> sorted = particles;
    std::sort(sorted.begin(), sorted.end());
    const auto twice = std::adjacent_find(sorted.begin(), sorted.end());
    if (twice == sorted.end())
        return;
    throw OpenMMException(message("SpookIntegrator: a constraint needs different particles, but has particle ", *twice,
                                  " twice. Give each particle once, and use its coordinates as often as needed"));
}

void requireSystemConstraint(int constraint) {
    require(constraint >= 0, "SpookIntegrator: the System has no constraint ", constraint, ". Indices begin with 0");
}

} // namespace

SpookIntegrator::SpookIntegrator(double stepSize)
        : StiffIntegrator(stepSize, kernelName<SpookIntegrator>), compliance(1e-8), velocityCompliance(1e-8),
          damping(0), dampingSteps(defaultDampingSteps), revision(0) {
}

void SpookIntegrator::setCompliance(double compliance) {
    requireNumber(compliance > 0, "the compliance must be a positive number", compliance,
                  "The default is 1e-8 nm^2*mol/kJ");
    this->compliance = compliance;
    revision++;
}

void SpookIntegrator::setVelocityCompliance(double compliance) {
    requireNumber(compliance > 0, "the compliance of velocity constraints must be a positive number", compliance,
                  "The default is 1e-8 nm^2*mol/(kJ*ps)");
    velocityCompliance = compliance;
    revision++;
}

void SpookIntegrator::setDamping(double damping) {
    requireNumber(damping > 0, "the damping time must be a positive number", damping,
                  "By default it is a quarter of a step, setDampingSteps(0.25)");
    this->damping = damping;
    dampingSteps = 0;
    revision++;
}

void SpookIntegrator::setDampingSteps(double steps) {
    requireNumber(steps > 0, "the damping time in steps must be a positive number", steps,
                  "The default is 0.25, the paper's number 2");
    dampingSteps = steps;
    damping = 0;
    revision++;
}

double SpookIntegrator::getDamping() const {
    return getUseDampingSteps() ? dampingSteps * getStepSize() : damping;
}

double SpookIntegrator::getDampingSteps() const {
    return getUseDampingSteps() ? dampingSteps : damping / getStepSize();
}

void SpookIntegrator::setUseDampingSteps(bool use) {
    require(use == getUseDampingSteps() || getStepSize() > 0, "SpookIntegrator: the damping time cannot be told in ",
            use ? "steps" : "ps", " while the step size is 0 ps. Set that first with setStepSize(), or call ",
            use ? "setDampingSteps()" : "setDamping()");
    if (use)
        setDampingSteps(getDampingSteps());
    else
        setDamping(getDamping());
}

int OpenMMStiff::getConstraintRevision(const SpookIntegrator& integrator) {
    return integrator.revision;
}

void SpookIntegrator::setSystemConstraintParameters(int constraint, double compliance, double damping) {
    requireSystemConstraint(constraint);
    requireCompliance(compliance);
    requireDamping(damping);
    if (compliance == 0 && damping == 0)
        ofSystem.erase(constraint);
    else
        ofSystem[constraint] = {compliance, damping};
    revision++;
}

void SpookIntegrator::getSystemConstraintParameters(int constraint, double& compliance, double& damping) const {
    requireSystemConstraint(constraint);
    const auto found = ofSystem.find(constraint);
    std::tie(compliance, damping) = (found == ofSystem.end() ? std::make_pair(0.0, 0.0) : found->second);
}

vector<int> SpookIntegrator::getSystemConstraintsWithParameters() const {
    vector<int> indices;
    for (const auto& entry : ofSystem)
        indices.push_back(entry.first);
    return indices;
}

int SpookIntegrator::addDistanceConstraint(int particle1, int particle2, double distance, double compliance,
                                           double damping) {
    return append(distances, [&](int index) {
        setDistanceConstraintParameters(index, particle1, particle2, distance, compliance, damping);
    });
}

void SpookIntegrator::getDistanceConstraintParameters(int index, int& particle1, int& particle2, double& distance,
                                                      double& compliance, double& damping) const {
    requireIndex(getClassName(), "distance constraint", "addDistanceConstraint()", index, distances.size());
    std::tie(particle1, particle2, distance, compliance, damping) = distances[index];
}

void SpookIntegrator::setDistanceConstraintParameters(int index, int particle1, int particle2, double distance,
                                                      double compliance, double damping) {
    requireIndex(getClassName(), "distance constraint", "addDistanceConstraint()", index, distances.size());
    requireDifferent({particle1, particle2});
    requireNumber(distance > 0, "the distance of a constraint must be a positive number", distance,
                  "For particles in one place use holonomic constraints, such as x1-x2");
    requireCompliance(compliance);
    requireDamping(damping);
    distances[index] = {particle1, particle2, distance, compliance, damping};
    revision++;
}

int SpookIntegrator::addPositionConstraint(int particle, const Vec3& position, double compliance, double damping) {
    return append(places,
                  [&](int index) { setPositionConstraintParameters(index, particle, position, compliance, damping); });
}

void SpookIntegrator::getPositionConstraintParameters(int index, int& particle, Vec3& position, double& compliance,
                                                      double& damping) const {
    requireIndex(getClassName(), "position constraint", "addPositionConstraint()", index, places.size());
    std::tie(particle, position, compliance, damping) = places[index];
}

void SpookIntegrator::setPositionConstraintParameters(int index, int particle, const Vec3& position, double compliance,
                                                      double damping) {
    requireIndex(getClassName(), "position constraint", "addPositionConstraint()", index, places.size());
    for (int axis = 0; axis < 3; axis++)
        requireNumber(true, "the position of a constraint must be finite", position[axis],
                      "To leave a component free use a holonomic constraint, such as x1-0.5");
    requireCompliance(compliance);
    requireDamping(damping);
    places[index] = {particle, position, compliance, damping};
    revision++;
}

int SpookIntegrator::addHolonomicConstraint(const vector<int>& particles, const string& expression, double compliance,
                                            double damping) {
    return append(holonomic, [&](int index) {
        setHolonomicConstraintParameters(index, particles, expression, compliance, damping);
    });
}

void SpookIntegrator::getHolonomicConstraintParameters(int index, vector<int>& particles, string& expression,
                                                       double& compliance, double& damping) const {
    requireIndex(getClassName(), "holonomic constraint", "addHolonomicConstraint()", index, holonomic.size());
    std::tie(particles, expression, compliance, damping) = holonomic[index];
}

void SpookIntegrator::setHolonomicConstraintParameters(int index, const vector<int>& particles,
                                                       const string& expression, double compliance, double damping) {
    requireIndex(getClassName(), "holonomic constraint", "addHolonomicConstraint()", index, holonomic.size());
    requireDifferent(particles);
    requireCompliance(compliance);
    requireDamping(damping);
    holonomic[index] = {particles, expression, compliance, damping};
    revision++;
}

int SpookIntegrator::addVelocityConstraint(const vector<int>& particles, const vector<string>& coefficients,
                                           const string& rate, double compliance) {
    return append(onVelocities, [&](int index) {
        setVelocityConstraintParameters(index, particles, coefficients, rate, compliance);
    });
}

void SpookIntegrator::getVelocityConstraintParameters(int index, vector<int>& particles, vector<string>& coefficients,
                                                      string& rate, double& compliance) const {
    requireIndex(getClassName(), "velocity constraint", "addVelocityConstraint()", index, onVelocities.size());
    std::tie(particles, coefficients, rate, compliance) = onVelocities[index];
}

void SpookIntegrator::setVelocityConstraintParameters(int index, const vector<int>& particles,
                                                      const vector<string>& coefficients, const string& rate,
                                                      double compliance) {
    requireIndex(getClassName(), "velocity constraint", "addVelocityConstraint()", index, onVelocities.size());
    requireDifferent(particles);
    require(coefficients.size() == 3 * particles.size(), "SpookIntegrator: a velocity constraint on ", particles.size(),
            " particles needs ", 3 * particles.size(), " coefficients, not ", coefficients.size(),
            ": the x, y and z components for each particle");
    requireCompliance(compliance);
    onVelocities[index] = {particles, coefficients, rate, compliance};
    revision++;
}

vector<double> SpookIntegrator::computeViolations() {
    requireContext();
    return getKernel<SpookQueries>().computeViolations();
}

vector<double> SpookIntegrator::getMultipliers() {
    requireContext();
    return getKernel<SpookQueries>().getMultipliers();
}

double SpookIntegrator::computeSystemTemperature() {
    requireContext();
    return computeTemperature(context->getSystem(), computeKineticEnergy(),
                              getKernel<SpookQueries>().countDegreesOfFreedom(), getClassName());
}

vector<Vec3> SpookIntegrator::getVelocitiesForTemperature(const System& system, double temperature,
                                                          int randomSeed) const {
    // All is done here, the offset in time included: OpenMM's CCMA, which comes afterwards, may diverge otherwise.
    vector<Vec3> velocities = Integrator::getVelocitiesForTemperature(system, temperature, randomSeed);
    if (context != nullptr)
        getKernel<SpookQueries>().prepareVelocities(velocities);
    return velocities;
}

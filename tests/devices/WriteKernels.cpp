/**
 * Writes what devices compile, so that compilers can be asked about it where there is no device: `WriteKernels FOLDER`.
 * For each integrator and each molecule, INTEGRATOR-MOLECULE.txt gets the text of its program.
 */

#include "OpenMM.h"
#include "OpenMMStiff.h"
#include "Programs.h"
#include "Systems.h"
#include "setup/Blocks.h"
#include "setup/BondedSpectrum.h"
#include "setup/PenalizedPairs.h"
#include <filesystem>
#include <fstream>
#include <iostream>
#include <map>

using namespace OpenMM;
using namespace OpenMMStiff;
using namespace stiffdevice;
using std::string;
using std::vector;
using stifftest::Model;

namespace {

const string caller = "WriteKernels";
constexpr double stepSize = 0.004;

// ---- Molecules ------------------------------------------------------------------------------------------------------

Model makeWater() {
    return stifftest::makeWaterCluster(1);
}

/** A water with a site on the bisector of its angle, such as TIP4P. */
Model makeFourSiteWater() {
    Model model = makeWater();
    const int site = model.system.addParticle(0);
    model.system.setVirtualSite(site, new ThreeParticleAverageSite(0, 1, 2, 0.79, 0.105, 0.105));
    return model;
}

Model makeMethanol() {
    Model model = stifftest::makeWaterCluster(0);
    stifftest::addMethanol(model, Vec3());
    return model;
}

/** Stiff bonds: carbons in a chain of a bond, a periodic bond and another bond; beside it, one more atom. */
Model makeMixedChain() {
    Model model;
    stifftest::addParticles(model.system, vector<double>(5, 12));
    stifftest::addBonds(model.system, {{0, 1, 0.15, 1e6}, {2, 3, 0.15, 1e6}});
    stifftest::addBonds(model.system, {{1, 2, 0.15, 1e6}}).setUsesPeriodicBoundaryConditions(true);
    return model;
}

/** Molecules for teams of threads, whose matrices are in local memory and in that of the device. */
Model makeAlkanes() {
    Model model = stifftest::makeWaterCluster(0);
    stifftest::addAlkane(model, 2, Vec3(), true);
    stifftest::addAlkane(model, 8, Vec3(), true);
    return model;
}

/** A water whose oxygen is bound to a massless particle, which does not move. */
Model makeAnchoredWater() {
    Model model = makeWater();
    const int anchor = model.system.addParticle(0);
    dynamic_cast<HarmonicBondForce&>(model.system.getForce(0)).addBond(0, anchor, 0.1, 1e6);
    return model;
}

// ---- Methods --------------------------------------------------------------------------------------------------------

/** Writes the programs for a molecule. */
class Writer {
public:
    Writer(const std::filesystem::path& folder, const string& molecule, const System& system)
            : folder(folder), molecule(molecule), system(system) {
        for (int i = 0; i < system.getNumParticles(); i++)
            masses.push_back(system.getParticleMass(i));
    }

    void writeMassPenalty() const {
        const string langevin = "MassPenaltyLangevinIntegrator";
        writePairs("MassPenaltyIntegrator", {false, false});
        writePairs(langevin, {true, false});
        writePairs(langevin + "_MetricCorrection", {true, true});
        writePairs("MassPenaltyIntegrator_BondInertia", {false, false}, 3);
        writePairs(langevin + "_BondInertia", {true, true}, 3);
    }

private:
    void writePairs(const string& name, const stiffcore::PenaltyMethod& method, double bondInertia = 0) const {
        const MassPenaltyIntegrator integrator(stepSize);
        const vector<PairInertia> constraints = readConstraints(system);
        const BondedStiffness bonded(system, constraints, integrator.getIntegrationForceGroups(), {}, caller);
        const BondGraph graph(system, constraints, &bonded);
        const BondedSpectrum spectrum(system, graph, integrator.getIntegrationForceGroups(), {}, caller);
        const PairTerms terms =
                spectrum.choose(choosePairs(system, constraints, &bonded, {}, integrator.getPenalizedPeriod(), caller),
                                chooseBonds(system, graph, bondInertia, false, {}, caller), 0, 0);
        vector<stiffcore::Block> blocks = findBlocks(system, terms);
        addFreeParticles(system, blocks);
        write(name, terms.pairs.empty() && terms.bonds.empty(), record(method, blocks, terms, masses));
    }

    void write(const string& name, bool isEmpty, const Recorded& recorded) const {
        if (isEmpty)
            throw std::runtime_error(name + " finds nothing stiff in " + molecule);
        for (size_t i = 0; i < recorded.size(); i++) {
            std::ofstream file(folder / (name + "-" + molecule + (i > 0 ? "-" + std::to_string(i) : "") + ".txt"));
            file << recorded[i].getText();
            file.close();
            if (!file)
                throw std::runtime_error("Cannot write to " + folder.string());
        }
    }

    const std::filesystem::path folder;
    const string molecule;
    const System& system;
    vector<double> masses;
};

void writeAll(const std::filesystem::path& folder) {
    const std::map<string, Model (*)()> molecules = {{"Water", makeWater},
                                                     {"FourSiteWater", makeFourSiteWater},
                                                     {"Methanol", makeMethanol},
                                                     {"MixedChain", makeMixedChain},
                                                     {"AnchoredWater", makeAnchoredWater}};
    for (const auto& [name, make] : molecules) {
        const Model model = make();
        Writer(folder, name, model.system).writeMassPenalty();
    }
    Model model = makeMixedChain();
    model.system.addConstraint(3, 4, 0.15);
    Writer(folder, "ConstrainedChain", model.system).writeMassPenalty();
    const Model alkanes = makeAlkanes();
    Writer(folder, "Alkanes", alkanes.system).writeMassPenalty();
}

} // namespace

int main(int argc, char* argv[]) {
    try {
        if (argc != 2)
            throw std::runtime_error("Usage: WriteKernels FOLDER");
        writeAll(argv[1]);
    }
    catch (const std::exception& e) {
        std::cerr << e.what() << std::endl;
        return 1;
    }
    return 0;
}

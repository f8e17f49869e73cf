/**
 * Writes what devices compile, so that compilers can be asked about it where there is no device: `WriteKernels FOLDER`.
 * For each integrator and each molecule, INTEGRATOR-MOLECULE.txt gets the text that Device::compile() puts together.
 * What is chosen here as DeviceKernels choose it: blocks, and the kernels with their names.
 */

#include "BlockKind.h"
#include "OpenMM.h"
#include "OpenMMStiff.h"
#include "PenaltyTexts.h"
#include "Systems.h"
#include "ZhangSkeelTexts.h"
#include "setup/Blocks.h"
#include "setup/PenalizedPairs.h"
#include "stiffhost/KeptStiffTerms.h"
#include <filesystem>
#include <fstream>
#include <iostream>
#include <map>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

using namespace OpenMM;
using namespace OpenMMStiff;
using namespace stiffcommon;
using std::string;
using std::vector;
using stifftest::Model;

namespace {

const string caller = "WriteKernels";
constexpr double temperature = 300, friction = 1, stepSize = 0.004;

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

/** Atoms, bonds and angles of CH3-OH. */
Model makeMethanol() {
    Model model;
    for (double mass : {12.011, 15.999, 1.008, 1.008, 1.008, 1.008})
        model.system.addParticle(mass);
    const int carbon = 0, oxygen = 1, hydroxyl = 2;
    auto* bonds = new HarmonicBondForce();
    auto* angles = new HarmonicAngleForce();
    bonds->addBond(carbon, oxygen, 0.141, 268000);
    bonds->addBond(oxygen, hydroxyl, 0.0945, 463000);
    angles->addAngle(carbon, oxygen, hydroxyl, 1.894, 460);
    for (int i = 3; i < 6; i++) {
        bonds->addBond(carbon, i, 0.109, 284500);
        angles->addAngle(oxygen, carbon, i, 1.911, 293);
        for (int j = 3; j < i; j++)
            angles->addAngle(i, carbon, j, 1.881, 276);
    }
    model.system.addForce(bonds);
    model.system.addForce(angles);
    return model;
}

/** Stiff bonds: carbons in a chain of a bond, a periodic bond and another bond; beside it, one more atom. */
Model makeMixedChain() {
    Model model;
    for (int i = 0; i < 5; i++)
        model.system.addParticle(12);
    auto* bonds = new HarmonicBondForce();
    auto* periodicBonds = new HarmonicBondForce();
    periodicBonds->setUsesPeriodicBoundaryConditions(true);
    bonds->addBond(0, 1, 0.15, 1e6);
    periodicBonds->addBond(1, 2, 0.15, 1e6);
    bonds->addBond(2, 3, 0.15, 1e6);
    model.system.addForce(bonds);
    model.system.addForce(periodicBonds);
    return model;
}

/** A water whose oxygen is bound to a massless particle, which does not move. */
Model makeAnchoredWater() {
    Model model = makeWater();
    const int anchor = model.system.addParticle(0);
    dynamic_cast<HarmonicBondForce&>(model.system.getForce(0)).addBond(0, anchor, 0.1, 1e6);
    return model;
}

// ---- Programs -------------------------------------------------------------------------------------------------------

/** Writes the programs for a molecule. */
class Writer {
public:
    Writer(const std::filesystem::path& folder, const string& molecule, const System& system)
            : folder(folder), molecule(molecule), system(system) {
        for (int i = 0; i < system.getNumParticles(); i++)
            masses.push_back(system.getParticleMass(i));
    }

    void writeMassPenalty() const {
        MassPenaltyIntegrator integrator(stepSize);
        auto texts = [](auto&& record) {
            return vector<KernelText>{record("move", recordPenaltyMove), record("kick", recordPenaltyKick)};
        };
        writePairs("MassPenaltyIntegrator", integrator, texts,
                   {recordFree("moveFree", recordFreeMove), recordFree("kickFree", recordFreeKick)});
        MassPenaltyLangevinIntegrator langevin(temperature, friction, stepSize);
        for (bool metricCorrection : {false, true}) {
            auto langevinTexts = [&](auto&& record) {
                return vector<KernelText>{record("moveLangevin", [&](BlockText& text, const auto& batch, auto& work) {
                    recordPenaltyLangevin(text, batch, work, metricCorrection);
                })};
            };
            writePairs(string("MassPenaltyLangevinIntegrator") + (metricCorrection ? "_MetricCorrection" : ""),
                       langevin, langevinTexts, {recordFree("moveFree", recordFreeLangevin)});
        }
    }

    void writeImpulse() const {
        const std::map<ImpulseIntegrator::KickMethod, string> kicks = {{ImpulseIntegrator::Projected, ""},
                                                                       {ImpulseIntegrator::Plain, "_Plain"}};
        for (const auto& [kick, suffix] : kicks) {
            ImpulseIntegrator integrator(stepSize);
            integrator.setKick(kick);
            auto texts = [](auto&& record) {
                return vector<KernelText>{record("start", recordImpulseStart), record("move", recordImpulseMove),
                                          record("kick", recordImpulseKick)};
            };
            writeTerms("ImpulseIntegrator" + suffix, integrator, texts,
                       {recordFree("startFree", recordFreeImpulseStart), recordFree("moveFree", recordFreeImpulseMove),
                        recordFree("kickFree", recordFreeImpulseKick)});
            ImpulseLangevinIntegrator langevin(temperature, friction, stepSize);
            langevin.setKick(kick);
            auto langevinTexts = [](auto&& record) {
                return vector<KernelText>{record("moveLangevin", recordImpulseLangevin)};
            };
            writeTerms("ImpulseLangevinIntegrator" + suffix, langevin, langevinTexts,
                       {recordFree("moveFree", recordFreeLangevin)});
        }
    }

    void writeZhangSkeel() const {
        ZhangSkeelIntegrator integrator(stepSize);
        writeImplicit("ZhangSkeelIntegrator", integrator, false, false);
        for (bool projects : {false, true}) {
            ZhangSkeelLangevinIntegrator langevin(temperature, friction, stepSize);
            langevin.setThermalizeStiffModes(!projects);
            writeImplicit(string("ZhangSkeelLangevinIntegrator") + (projects ? "_Projecting" : ""), langevin, true,
                          projects);
        }
    }

private:
    template <class Texts>
    void writePairs(const string& name, const MassPenaltyIntegrator& integrator, Texts&& texts,
                    const vector<KernelText>& free) const {
        BondedStiffness bonded(system, integrator.getIntegrationForceGroups(), caller);
        bonded.compute(system, {});
        const vector<PenalizedPair> pairs =
                choosePairs(system, &bonded, {}, integrator.computePenalizedPeriod(), caller);
        vector<vector<int>> particles;
        for (const PenalizedPair& pair : pairs)
            particles.push_back({pair.particle1, pair.particle2});
        write<stiffcore::PairBatch>(name, connect(system, particles), pairs, texts, free);
    }

    template <class Integrator, class Texts>
    void writeTerms(const string& name, const Integrator& integrator, Texts&& texts,
                    const vector<KernelText>& free) const {
        stiffhost::KeptStiffTerms terms;
        terms.update(system, stiffhost::selectTerms(integrator), caller);
        write<stiffcore::StiffBatch>(name, terms.getBlocks(), terms.getTerms(), texts, free);
    }

    void writeImplicit(const string& name, const ZhangSkeelIntegrator& integrator, bool hasHeatBath,
                       bool projects) const {
        auto texts = [&](auto&& record) {
            return vector<KernelText>{record("begin", recordImplicitBegin), record("start", recordImplicitStart),
                                      record("move", recordImplicitMove),
                                      record("finish", [&](BlockText& text, const auto& batch, auto& work) {
                                          recordImplicitFinish(text, batch, work, hasHeatBath, projects);
                                      })};
        };
        writeTerms(name, integrator, texts,
                   {recordFree("beginFree", recordFreeImplicitBegin), recordFree("startFree", recordFreeImplicitStart),
                    recordFree("moveFree", recordFreeImplicitMove),
                    recordFree("finishFree", [&](BlockText& text) { recordFreeImplicitFinish(text, hasHeatBath); })});
    }

    template <template <class> class Batch, class Texts>
    void write(const string& name, const vector<Block>& blocks, const typename Batch<double>::Terms& terms,
               Texts&& texts, const vector<KernelText>& free) const {
        const auto kinds = BlockKind<Batch>::sort(blocks, terms, masses);
        if (kinds.empty())
            throw std::runtime_error(name + " finds nothing stiff in " + molecule);
        std::ofstream file(folder / (name + "-" + molecule + ".txt"));
        file << BlockText::getHead();
        for (size_t i = 0; i < kinds.size(); i++)
            for (const KernelText& kernel : texts([&](const string&name, auto&&body) {
                     return kinds[i].record(name + std::to_string(i), terms, masses, body);
                 }))
                file << kernel.text;
        for (const KernelText& kernel : free)
            file << kernel.text;
        file.close();
        if (!file)
            throw std::runtime_error("Cannot write to " + folder.string());
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
        const Writer writer(folder, name, model.system);
        writer.writeMassPenalty();
        writer.writeImpulse();
        writer.writeZhangSkeel();
    }
    // On a device only the mass penalty has constraints.
    Model model = makeMixedChain();
    model.system.addConstraint(3, 4, 0.15);
    Writer(folder, "ConstrainedChain", model.system).writeMassPenalty();
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

#include "TeamTables.h"
#include "stiffcore/pairs/PairBatch.h"
#include <algorithm>
#include <map>
#include <memory>
#include <numeric>

using namespace stiffdevice;
using std::vector;
using stiffcore::Block;

namespace {

using Pairs = stiffcore::PairBatch<double>;

/** What a row is: an axis, if it is that of an atom or a bond, and flags. */
int getKind(const stiffcore::DistanceRow& row) {
    return row.periodic + 2 * row.constrained + 4 * (row.axis + 1);
}

/** The rows in the order of their elimination, on which the velocities depend that are shown. */
vector<int> orderRows(const Pairs& batch) {
    vector<int> rows(batch.numRows());
    for (int p = 0; p < batch.numRows(); p++)
        rows[batch.sparse ? batch.sparse->solver->getPlace(p) : p] = p;
    return rows;
}
vector<int> findPlaces(int number, const vector<int>& rows) {
    vector<int> places(number, -1);
    for (size_t i = 0; i < rows.size(); i++)
        places[rows[i]] = i;
    return places;
}

/** For each mobile atom, the rows whose impulses move it, and the weights of these. */
vector<vector<std::pair<int, double>>> findImpulses(const Pairs& batch) {
    vector<vector<std::pair<int, double>>> impulses(batch.numMobile);
    const vector<int> rows = orderRows(batch);
    for (int p = 0; p < batch.numRows(); p++) {
        const stiffcore::DistanceRow& row = batch.row(rows[p]);
        for (size_t k = 0; k < row.reached.size(); k++) {
            const int atom = row.reached[k], sign = (atom == row.atoms[1]) - (atom == row.atoms[0]);
            impulses[atom].push_back({3 * p + 1 + sign, batch.weights[row.firstWeight + k]});
        }
    }
    return impulses;
}

/** An atom that is coupled by the masses, the entry of W times its mass, and that of the noise's root. */
struct Neighbour {
    int atom;
    double mobility, root;
};
/** Those of each atom; velocities that are shown ask for none. */
vector<vector<Neighbour>> findNeighbours(const Pairs& batch) {
    vector<vector<Neighbour>> neighbours(batch.numMobile);
    for (int i = 0; i < batch.numMobile && !batch.pattern->ofRoot; i++) {
        const int g = batch.pattern->groupOf[i];
        if (batch.W.empty() || batch.W[g].empty()) {
            neighbours[i] = {{i, 1, 1}};
            continue;
        }
        const vector<int>& group = batch.pattern->groups[g];
        const size_t row = batch.pattern->placeInGroup[i] * group.size();
        for (size_t j = 0; j < group.size(); j++)
            neighbours[i].push_back(
                    {group[j], batch.W[g][row + j] / batch.inverseMasses[group[j]], batch.noiseRoot[g][row + j]});
    }
    return neighbours;
}

/** Rows that are constrained, where there are forces of the metric. */
vector<int> findConstrained(const Pairs& batch) {
    vector<int> constrained;
    for (const stiffcore::DistanceRow& row : batch.pattern->constraints.rows)
        constrained.push_back(row.firstGradient);
    return constrained;
}

/**
 * The table of a build, which setUp() of TeamText reads: numbers, rows, and lists for each mobile atom, after the places
 * in them where that of each begins.
 */
vector<int> describe(const Pairs& batch) {
    const vector<int> rows = orderRows(batch), constrained = findConstrained(batch);
    vector<int> table = {batch.numParticles(), batch.numMobile, batch.numRows(), (int) constrained.size(),
                         batch.pattern->hasMetric};
    for (int p : rows)
        table.insert(table.end(), {batch.row(p).atoms[0], batch.row(p).atoms[1], getKind(batch.row(p))});
    auto addLists = [&](const auto& lists, auto&& getNumber) {
        int number = 0;
        table.push_back(number);
        for (const auto& list : lists)
            table.push_back(number += list.size());
        for (const auto& list : lists)
            for (const auto& element : list)
                table.push_back(getNumber(element));
    };
    addLists(findImpulses(batch), [](const auto& impulse) { return impulse.first; });
    addLists(findNeighbours(batch), [](const Neighbour& neighbour) { return neighbour.atom; });
    for (int p = 0; p < batch.numRows(); p++)
        table.push_back(p);
    for (int p : constrained)
        table.push_back(findPlaces(batch.numRows(), rows)[p]);
    return table;
}

/** What the products of the directions of rows count, as a lower triangle by rows; places[p] is where row p stands. */
void addTriangle(const stiffcore::RowPattern<stiffcore::DistanceRow>& pattern, const vector<int>& places,
                 const vector<double>& diagonal, const vector<double>& couplings, vector<double>& parameters) {
    const size_t first = parameters.size();
    parameters.resize(first + places.size() * (places.size() + 1) / 2, 0.0);
    auto entry = [&](int p, int q) -> double& {
        const auto [low, high] = std::minmax(places[p], places[q]);
        return parameters[first + high * (high + 1) / 2 + low];
    };
    for (size_t p = 0; p < places.size(); p++)
        entry(p, p) = diagonal[p];
    for (size_t i = 0; i < couplings.size(); i++)
        entry(pattern.couplings[i].p, pattern.couplings[i].q) += couplings[i];
}

/** The parameters of a block, in the order of setUp(). */
vector<double> collect(const Pairs& batch) {
    vector<double> parameters(batch.inverseMasses.begin(), batch.inverseMasses.begin() + batch.numMobile);
    const vector<int> rows = orderRows(batch);
    for (int p : rows)
        parameters.push_back(batch.row(p).constrained ? batch.lengths[p] : batch.inverseInertias[p]);
    for (const auto& list : findImpulses(batch))
        for (const auto& impulse : list)
            parameters.push_back(impulse.second);
    for (double Neighbour::*number : {&Neighbour::mobility, &Neighbour::root})
        for (const auto& list : findNeighbours(batch))
            for (const Neighbour& neighbour : list)
                parameters.push_back(neighbour.*number);
    addTriangle(*batch.rowPattern, findPlaces(batch.numRows(), rows), batch.inverseReducedMasses, batch.couplings,
                parameters);
    vector<int> places(batch.ofMasses.size());
    std::iota(places.begin(), places.end(), 0);
    addTriangle(batch.pattern->constraints, places, batch.ofMasses, batch.couplingsOfMasses, parameters);
    return parameters;
}

/** Some blocks, and where in the tables of their builds each one's is. */
struct Collected {
    TeamBlocks team;
    vector<int> builds;
    std::map<vector<double>, int> sets;
};

} // namespace

vector<TeamBlocks> stiffdevice::makeTeams(const vector<Block>& blocks, const stiffcore::PairTerms& terms,
                                          const vector<double>& masses) {
    using Pattern = stiffcore::PairPattern;
    struct Build {
        std::unique_ptr<Pattern> pattern;
        vector<int> table;
    };
    vector<Build> builds;
    std::map<vector<int>, int> buildOf;
    TeamBlocks none;
    none.ofRoots = terms.ofRoot;
    Collected kinds[2] = {{none, {}, {}}, {none, {}, {}}};
    kinds[1].team.inScratch = true;
    for (const Block& block : blocks) {
        const auto [place, isNew] = buildOf.try_emplace(Pattern::describe(block, terms), builds.size());
        if (isNew)
            builds.push_back({std::make_unique<Pattern>(block, terms), {}});
        Build& build = builds[place->second];
        const Pairs batch(*build.pattern, {&block}, terms, masses);
        if (isNew)
            build.table = describe(batch);
        TeamBlocks with = none;
        with.makeRoom(kinds[0].team.numAtoms, kinds[0].team.numRows);
        with.makeRoom(batch.numParticles(), batch.numRows());
        auto& [team, itsBuilds, sets] = kinds[with.countNumbers() > TeamBlocks::maxNumbers];
        team.makeRoom(batch.numParticles(), batch.numRows());
        const vector<double> parameters = collect(batch);
        const auto [set, isOther] = sets.try_emplace(parameters, team.parameters.size());
        if (isOther)
            team.parameters.insert(team.parameters.end(), parameters.begin(), parameters.end());
        team.tables.insert(team.tables.end(), {0, set->second, team.numParticles, team.numRandoms});
        itsBuilds.push_back(place->second);
        team.particles.push_back(block.particles);
        team.numParticles += batch.numParticles();
        team.numRandoms += std::max(batch.numMobile, batch.numRows());
    }
    vector<TeamBlocks> teams;
    for (auto& [team, itsBuilds, sets] : kinds) {
        if (itsBuilds.empty())
            continue;
        std::map<int, int> tableOf;
        for (size_t i = 0; i < itsBuilds.size(); i++) {
            const auto [place, isNew] = tableOf.try_emplace(itsBuilds[i], team.tables.size());
            team.tables[TeamBlocks::headSize * i] = place->second;
            const vector<int>& table = builds[itsBuilds[i]].table;
            if (isNew)
                team.tables.insert(team.tables.end(), table.begin(), table.end());
        }
        teams.push_back(std::move(team));
    }
    return teams;
}

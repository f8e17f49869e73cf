#include "TeamText.h"
#include "BlockText.h"

using namespace stiffdevice;
using std::string;
using stiffcore::Effect;

namespace {

// Functions begin after a barrier and end with one. No barrier is in a branch, nor in a loop that may be left out: PoCL
// has a copy of all that follows for each such branch. What is not to be done is done for no rows.

const char* const functions = R"(
// NVIDIA's keep some 128 kB of code at hand. That of a step has 65 kB, and 240 if all is inlined and unrolled.
#ifdef __CUDACC__
#define FUNCTION DEVICE __noinline__
#else
#define FUNCTION DEVICE
#endif
#define FOR(i, number) _Pragma("unroll 1") for (int i = LOCAL_ID; i < (number); i += TEAM_SIZE)
// The entries of a matrix are shared out by tiles, of which a thread has an entry each.
#define FOR_ROWS(i, first, end) _Pragma("unroll 1") for (int i = (first) + (int) LOCAL_ID/TILE; i < (end); i += TILE)
#define FOR_COLUMNS(j, first, end) _Pragma("unroll 1") for (int j = (first) + (int) LOCAL_ID%TILE; j < (end); j += TILE)
#define PERIODIC 1
#define CONSTRAINED 2
DEVICE mixed multiply(LOCAL_ARG const mixed* a, LOCAL_ARG const mixed* b) {
    return a[0]*b[0] + a[1]*b[1] + a[2]*b[2];
}

typedef struct {
    int numParticles, numMobile, numRows, numConstrained, stride;
    bool hasMetric;
    // Of each row its atoms and kind; of each mobile atom where its lists begin, and these; rows.
    GLOBAL const int *rows, *impulseStarts, *impulses, *neighbourStarts, *neighbours, *all, *constrained;
    GLOBAL const mixed *inverseMasses, *ofRows, *weights, *mobilities, *roots, *couplings, *couplingsOfMasses, *uniform;
    // Of each atom; of each row; two columns of a matrix; a matrix.
    LOCAL_ARG mixed *x, *v, *a;
    LOCAL_ARG mixed *u, *lambda, *r, *w, *z, *correction, *before;
    LOCAL_ARG mixed* columns;
    MATRIX mixed* A;
} Team;

// If nothing is to be done, it is done for a block that has no atoms.
FUNCTION void setUp(Team* team, GLOBAL const int* table, GLOBAL const mixed* parameters, bool isEmpty) {
    team->numParticles = table[0];
    team->numMobile = table[1];
    const int numRows = team->numRows = table[2];
    team->numConstrained = table[3];
    team->hasMetric = (table[4] != 0);
    team->stride = (numRows + 1) | 1;
    team->rows = table + 5;
    team->impulseStarts = team->rows + 3*numRows;
    team->impulses = team->impulseStarts + team->numMobile + 1;
    const int numImpulses = team->impulses[-1];
    team->neighbourStarts = team->impulses + numImpulses;
    team->neighbours = team->neighbourStarts + team->numMobile + 1;
    const int numNeighbours = team->neighbours[-1];
    team->all = team->neighbours + numNeighbours;
    team->constrained = team->all + numRows;
    team->inverseMasses = parameters;
    team->ofRows = parameters + team->numMobile;
    team->weights = team->ofRows + numRows;
    team->mobilities = team->weights + numImpulses;
    team->roots = team->mobilities + numNeighbours;
    team->couplings = team->roots + numNeighbours;
    team->couplingsOfMasses = team->couplings + numRows*(numRows + 1)/2;
    if (isEmpty)
        team->numParticles = team->numMobile = team->numRows = team->numConstrained = 0;
}

DEVICE bool isConstrained(const Team* team, int p) {
    return (team->rows[3*p + 2] & CONSTRAINED) != 0;
}
DEVICE mixed getInverseInertia(const Team* team, int p) {
    return isConstrained(team, p) ? 0 : team->ofRows[p];
}
DEVICE mixed getAdded(const Team* team, int p) {
    return isConstrained(team, p) ? REGULARIZATION*team->couplings[p*(p + 3)/2] : team->ofRows[p];
}

FUNCTION void computeLengths(const Team* team, bool withDirections) {
    FOR(p, team->numRows) {
        const int i = 3*team->rows[3*p], j = 3*team->rows[3*p + 1], kind = team->rows[3*p + 2], axis = (kind >> 2) - 1;
        mixed d[3];
        for (int k = 0; k < 3; k++)
            d[k] = (axis >= 0 ? (k == axis) : team->x[j + k] - team->x[i + k]);
        if ((kind & PERIODIC) != 0) {
            GLOBAL const mixed* box = team->uniform + BOX;
            for (int k = 2; k >= 0; k--) {
                const mixed shift = floor(d[k]/box[k*(k + 3)/2] + NUMBER(0.5));
                for (int l = 0; l <= k; l++)
                    d[l] -= shift*box[k*(k + 1)/2 + l];
            }
        }
        const mixed r = sqrt(d[0]*d[0] + d[1]*d[1] + d[2]*d[2] + TINY);
        team->r[p] = r;
        if (withDirections)
            for (int k = 0; k < 3; k++)
                team->u[3*p + k] = d[k]/r;
    }
    SYNC_THREADS
}

DEVICE mixed computeRate(const Team* team, int p) {
    const int i = team->rows[3*p], j = team->rows[3*p + 1];
    const mixed rate = multiply(team->u + 3*p, team->v + 3*j);
    return i == j ? rate : rate - multiply(team->u + 3*p, team->v + 3*i);
}

// vectors <- vectors + M^-1 G^T lambda
FUNCTION void addImpulses(const Team* team, LOCAL_ARG const mixed* directions, LOCAL_ARG const mixed* lambda,
        LOCAL_ARG mixed* vectors) {
    FOR(i, team->numMobile) {
        mixed x = 0, y = 0, z = 0;
        for (int e = team->impulseStarts[i]; e < team->impulseStarts[i + 1]; e++) {
            const int p = team->impulses[e]/3;
            const mixed impulse = lambda[p]*team->weights[e];
            x += directions[3*p]*impulse;
            y += directions[3*p + 1]*impulse;
            z += directions[3*p + 2]*impulse;
        }
        vectors[3*i] += x;
        vectors[3*i + 1] += y;
        vectors[3*i + 2] += z;
    }
    SYNC_THREADS
}

// v <- scale v + factor (matrices of groups) a
FUNCTION void addOfGroups(const Team* team, mixed scale, mixed factor, GLOBAL const mixed* matrices) {
    FOR(i, team->numMobile) {
        mixed x = 0, y = 0, z = 0;
        for (int e = team->neighbourStarts[i]; e < team->neighbourStarts[i + 1]; e++) {
            const int j = 3*team->neighbours[e];
            x += matrices[e]*team->a[j];
            y += matrices[e]*team->a[j + 1];
            z += matrices[e]*team->a[j + 2];
        }
        team->v[3*i] = scale*team->v[3*i] + factor*x;
        team->v[3*i + 1] = scale*team->v[3*i + 1] + factor*y;
        team->v[3*i + 2] = scale*team->v[3*i + 2] + factor*z;
    }
    SYNC_THREADS
}

// A <- A^-1, lower triangles with entries at [i*down + j*right], by the symmetric form of Gauss and Jordan's method: step
// k takes row k times column k from all others. Threads have the entries in registers, those above the diagonal in vain;
// column k is in local memory, and that of the next step beside it, so that a step has one barrier.
FUNCTION void invert(MATRIX mixed* A, int n, int down, int right, LOCAL_ARG mixed* columns) {
    const int row = LOCAL_ID/TILE, column = LOCAL_ID%TILE;
    mixed entries[TILES*(TILES + 1)/2];
    #pragma unroll
    for (int r = 0; r < TILES; r++)
        #pragma unroll
        for (int c = 0; c <= r; c++) {
            const int i = TILE*r + row, j = TILE*c + column;
            entries[r*(r + 1)/2 + c] = (j <= i && i < n ? A[i*down + j*right] : 0);
        }
    FOR(i, TILE*TILES)
        columns[i] = (i < n ? A[i*down] : 0);
    SYNC_THREADS
    int k = 0;
    do {
        LOCAL_ARG const mixed* present = columns + (k%2 == 0 ? 0 : TILE*TILES);
        LOCAL_ARG mixed* next = columns + (k%2 == 0 ? TILE*TILES : 0);
        const mixed inversePivot = 1/present[k];
        #pragma unroll
        for (int r = 0; r < TILES; r++) {
            if (TILE*r >= n)
                continue;
            const int i = TILE*r + row;
            const mixed l = present[i]*inversePivot;
            #pragma unroll
            for (int c = 0; c <= r; c++) {
                const int j = TILE*c + column;
                mixed entry = entries[r*(r + 1)/2 + c] - l*present[j];
                if (i == k)
                    entry = (j == k ? -inversePivot : present[j]*inversePivot);
                else if (j == k)
                    entry = l;
                entries[r*(r + 1)/2 + c] = entry;
                if (j == k + 1 && i >= j)
                    next[i] = entry;
                else if (i == k + 1 && j < i)
                    next[j] = entry;
            }
        }
        SYNC_THREADS
        k++;
    } while (k < n);
    #pragma unroll
    for (int r = 0; r < TILES; r++)
        #pragma unroll
        for (int c = 0; c <= r; c++) {
            const int i = TILE*r + row, j = TILE*c + column;
            if (j <= i && i < n)
                A[i*down + j*right] = -entries[r*(r + 1)/2 + c];
        }
    SYNC_THREADS
}

FUNCTION void computeMatrix(const Team* team) {
    FOR_ROWS(p, 0, team->numRows)
        FOR_COLUMNS(q, 0, p + 1)
            team->A[p*team->stride + q] = team->couplings[p*(p + 1)/2 + q]*multiply(team->u + 3*p, team->u + 3*q) +
                    (p == q ? getAdded(team, p) : 0);
    SYNC_THREADS
}

FUNCTION void invertThere(const Team* team) {
    computeMatrix(team);
    invert(team->A, team->numRows, team->stride, 1, team->columns);
}

// b <- A^-1 b, of all rows or of none.
FUNCTION void solve(const Team* team, int n, LOCAL_ARG mixed* b) {
    FOR(i, n) {
        mixed sum = 0;
        for (int j = 0; j < n; j++)
            sum += team->A[j <= i ? i*team->stride + j : j*team->stride + i]*b[j];
        team->columns[i] = sum;
    }
    SYNC_THREADS
    FOR(i, n)
        b[i] = team->columns[i];
    SYNC_THREADS
}

FUNCTION void tieVelocities(const Team* team) {
    FOR(p, team->numRows)
        team->lambda[p] = team->w[p] - computeRate(team, p);
    SYNC_THREADS
    solve(team, team->numRows, team->lambda);
    addImpulses(team, team->u, team->lambda, team->v);
    FOR(p, team->numRows)
        team->w[p] -= getInverseInertia(team, p)*team->lambda[p];
}

FUNCTION void beginTied(const Team* team) {
    computeLengths(team, true);
    FOR(p, team->numRows)
        team->w[p] = (isConstrained(team, p) ? 0 : computeRate(team, p));
    invertThere(team);
}

// The forces of scale log det(A) / 2 on the lengths of its rows, from the inverse of A; they are added to `before`.
FUNCTION void addDeterminantForces(const Team* team, mixed scale, MATRIX const mixed* inverse, int n,
        int down, int right, GLOBAL const int* rows, GLOBAL const mixed* couplings) {
    FOR(i, n) {
        const int p = rows[i];
        mixed y[3] = {0, 0, 0};
        for (int j = 0; j < n; j++) {
            const int high = (i > j ? i : j), low = (i > j ? j : i);
            const mixed factor = couplings[high*(high + 1)/2 + low]*inverse[high*down + low*right];
            for (int axis = 0; axis < 3; axis++)
                y[axis] += factor*team->u[3*rows[j] + axis];
        }
        const mixed length = team->u[3*p]*y[0] + team->u[3*p + 1]*y[1] + team->u[3*p + 2]*y[2];
        for (int axis = 0; axis < 3; axis++)
            team->before[3*p + axis] += (y[axis] - team->u[3*p + axis]*length)*scale/team->r[p];
    }
    SYNC_THREADS
}

FUNCTION void addMetricForces(const Team* team, mixed kT) {
    const int stride = team->stride, n = (team->hasMetric ? team->numRows : 0);
    const int numConstrained = (team->hasMetric ? team->numConstrained : 0);
    // The matrix of constraints stands above the diagonal.
    MATRIX mixed* ofConstraints = team->A + 1;
    FOR(i, 3*team->numRows)
        team->before[i] = 0;
    FOR_ROWS(i, 0, numConstrained)
        FOR_COLUMNS(j, 0, i + 1) {
            const int p = team->constrained[i], q = team->constrained[j];
            ofConstraints[i + j*stride] = team->couplingsOfMasses[i*(i + 1)/2 + j]*
                    (multiply(team->u + 3*p, team->u + 3*q) + (i == j ? REGULARIZATION : 0));
        }
    SYNC_THREADS
    addDeterminantForces(team, kT, team->A, n, stride, 1, team->all, team->couplings);
    invert(ofConstraints, numConstrained, 1, stride, team->columns);
    addDeterminantForces(team, -kT, ofConstraints, numConstrained, 1, stride, team->constrained,
            team->couplingsOfMasses);
    FOR(i, team->numMobile) {
        mixed x = 0, y = 0, z = 0;
        for (int e = team->impulseStarts[i]; e < team->impulseStarts[i + 1]; e++) {
            const int p = team->impulses[e]/3, sign = team->impulses[e]%3 - 1;
            x -= sign*team->before[3*p];
            y -= sign*team->before[3*p + 1];
            z -= sign*team->before[3*p + 2];
        }
        team->a[3*i] += x*team->inverseMasses[i];
        team->a[3*i + 1] += y*team->inverseMasses[i];
        team->a[3*i + 2] += z*team->inverseMasses[i];
    }
    SYNC_THREADS
}

// correction <- (G H^T + D)^-1 correction, with directions at two places, by Gauss and Jordan's method without pivoting.
FUNCTION void solveNewton(const Team* team, int n) {
    const int stride = team->stride;
    MATRIX mixed* A = team->A;
    FOR_ROWS(p, 0, n)
        FOR_COLUMNS(q, 0, n + 1) {
            const int high = (p > q ? p : q), low = (p > q ? q : p);
            A[p*stride + q] = (q == n ? team->correction[p] :
                    team->couplings[high*(high + 1)/2 + low]*multiply(team->u + 3*p, team->before + 3*q) +
                            (p == q ? getAdded(team, p) : 0));
        }
    SYNC_THREADS
    int k = 0;
    do {
        FOR_ROWS(p, 0, n) {
            if (p == k)
                continue;
            const mixed l = A[p*stride + k]/A[k*stride + k];
            FOR_COLUMNS(q, k + 1, n + 1)
                A[p*stride + q] -= l*A[k*stride + q];
        }
        SYNC_THREADS
        k++;
    } while (k < n);
    FOR(p, n)
        team->correction[p] = A[p*stride + n]/A[p*stride + p];
    SYNC_THREADS
}

// The motion over a time; whether its solve has converged. From where it began Newton's method takes over if need be.
FUNCTION bool driftTied(const Team* team, mixed t, mixed tolerance) {
    FOR(p, team->numRows) {
        team->z[p] = (isConstrained(team, p) ? team->ofRows[p] : team->r[p] + t*team->w[p]);
        team->lambda[p] = 0;
        for (int axis = 0; axis < 3; axis++)
            team->before[3*p + axis] = team->u[3*p + axis];
    }
    FOR(i, 3*team->numMobile) {
        team->x[i] += t*team->v[i];
        team->a[i] = team->x[i];
    }
    SYNC_THREADS
    bool converged = false, newton = false, ends = false;
    mixed last = 0;
    int iteration = 0;
    do {
        computeLengths(team, newton);
        FOR(p, team->numRows)
            team->correction[p] = team->z[p] - getInverseInertia(team, p)*team->lambda[p] - team->r[p];
        SYNC_THREADS
        mixed largest = 0;
        converged = true;
        for (int p = 0; p < team->numRows; p++) {
            const mixed size = fabs(team->correction[p]);
            converged = (converged && size <= tolerance*team->z[p]);
            largest = (size > largest ? size : largest);
        }
        const bool restarts = (!newton && !converged && iteration > 0 &&
                !(iteration < MAX_ITERATIONS && largest < SLOW*last));
        last = largest;
        solve(team, newton || restarts ? 0 : team->numRows, team->correction);
        solveNewton(team, newton ? team->numRows : 0);
        FOR(p, team->numRows) {
            if (restarts)
                team->correction[p] = 0;
            team->lambda[p] = (restarts ? 0 : team->lambda[p] + team->correction[p]);
        }
        if (restarts)
            FOR(i, 3*team->numMobile)
                team->x[i] = team->a[i];
        SYNC_THREADS
        addImpulses(team, team->before, team->correction, team->x);
        ends = (converged || (newton && iteration >= MAX_ITERATIONS));
        if (restarts) {
            newton = true;
            iteration = -1;
        }
        iteration++;
    } while (!ends);
    FOR(p, team->numRows) {
        team->lambda[p] /= t;
        team->w[p] -= getInverseInertia(team, p)*team->lambda[p];
    }
    SYNC_THREADS
    addImpulses(team, team->before, team->lambda, team->v);
    computeLengths(team, true);
    invertThere(team);
    return converged;
}
)";

// v <- N^-1 v, see stiffcore/pairs/MassRoot.h.
const char* const rootFunctions = R"(
// A = L D L^T becomes 1/D and below it L D.
FUNCTION void factor(const Team* team) {
    const int n = team->numRows, stride = team->stride;
    MATRIX mixed* A = team->A;
    int k = 0;
    do {
        const mixed inversePivot = 1/A[k*stride + k];
        FOR_ROWS(i, k + 1, n) {
            const mixed l = A[i*stride + k]*inversePivot;
            FOR_COLUMNS(j, k + 1, i + 1)
                A[i*stride + j] -= l*A[j*stride + k];
        }
        SYNC_THREADS
        k++;
    } while (k + 1 < n);
    FOR(i, n)
        A[i*stride + i] = 1/A[i*stride + i];
    SYNC_THREADS
}

FUNCTION void applyInverseRoot(const Team* team) {
    const int n = team->numRows, stride = team->stride;
    MATRIX const mixed* A = team->A;
    LOCAL_ARG mixed *scales = team->r, *b = team->lambda;
    FOR(p, n) {
        const mixed scale = sqrt(getInverseInertia(team, p)*A[p*stride + p]);
        b[p] = (isConstrained(team, p) ? 0 : computeRate(team, p)*A[p*stride + p]/scale);
        scales[p] = scale;
    }
    SYNC_THREADS
    int i = n - 1;
    do { // (L + S)^T b = ...
        FOR(k, i)
            b[k] -= A[i*stride + k]*A[k*stride + k]*b[i]/(1 + scales[i]);
        SYNC_THREADS
        i--;
    } while (i > 0);
    FOR(p, n)
        b[p] /= 1 + scales[p];
    SYNC_THREADS
    addImpulses(team, team->u, b, team->v);
}
)";

const char* const load = R"(
        const mixed4 origin = POSITION(there[0]);
        FOR(i, team.numParticles) {
            const mixed4 position = POSITION(there[i]), velocity = velm[there[i]];
            const bool isMobile = (i < team.numMobile);
            team.x[3*i] = position.x - origin.x;
            team.x[3*i + 1] = position.y - origin.y;
            team.x[3*i + 2] = position.z - origin.z;
            team.v[3*i] = (isMobile ? velocity.x : 0);
            team.v[3*i + 1] = (isMobile ? velocity.y : 0);
            team.v[3*i + 2] = (isMobile ? velocity.z : 0);
        }
        SYNC_THREADS
)";
const char* const storeVelocity = R"(
            velm[there[i]] = make_mixed4(team.v[3*i], team.v[3*i + 1], team.v[3*i + 2], velm[there[i]].w);)";

string read(Uniform which) {
    return "uniform[" + std::to_string(int(which)) + "]";
}
string keptPlace(KeptVector which) {
    return "kept[" + std::to_string(int(which)) + "*numParticles + begin + i]";
}
string define(const string& name, const string& value) {
    return "#define " + name + " " + value + "\n";
}

/** The phases of stiffcore::PenaltyMethod::execute(). */
string getPhase(TeamText::Method::Phase phase, const TeamText::Method& method) {
    using Method = TeamText::Method;
    const string h = read(Uniform::StepSize), amplitude = read(Uniform::NoiseAmplitude);
    switch (phase) {
    case Method::Begin:
        return "        beginTied(&team);\n";
    case Method::Recall:
        return R"(
        FOR(i, team.numMobile) {
            const mixed4 a = )" +
               keptPlace(KeptVector::Acceleration) + R"(;
            team.a[3*i] = a.x;
            team.a[3*i + 1] = a.y;
            team.a[3*i + 2] = a.z;
        }
        SYNC_THREADS
)";
    case Method::Accelerate:
        return R"(
        FOR(i, team.numMobile) {
            for (int axis = 0; axis < 3; axis++) {
                const mixed F = FORCE(there[i], axis);
                if (!(fabs(F) < MAX_FORCE))
                    wrong[1] = 1;
                team.a[3*i + axis] = F*team.inverseMasses[i];
            })" +
               (method.langevin ? ""
                                : "\n            " + keptPlace(KeptVector::Acceleration) +
                                          " = make_mixed4(team.a[3*i], team.a[3*i + 1], team.a[3*i + 2], 0);") +
               R"(
        }
        SYNC_THREADS
)";
    case Method::CorrectMetric:
        return method.metricCorrection ? "        addMetricForces(&team, " + read(Uniform::ThermalEnergy) + ");\n" : "";
    case Method::Kick:
        return "        addOfGroups(&team, 1, " + (method.langevin ? h : "NUMBER(0.5)*" + h) +
               ", team.mobilities);\n        tieVelocities(&team);\n" +
               (method.langevin ? R"(
        FOR(i, team.numMobile) {
            const mixed4 before = velm[there[i]];
            const mixed most = 2*)" + read(Uniform::CollisionEnergy) +
                                          R"(*team.inverseMasses[i];
            const mixed now = multiply(team.v + 3*i, team.v + 3*i);
            if (now > most && now - (before.x*before.x + before.y*before.y + before.z*before.z) > NUMBER(0.25)*most)
                wrong[0] = 1;
        }
)"
                                : "");
    case Method::Drift:
        return "        if (!driftTied(&team, NUMBER(0.5)*" + h + ", tolerance))\n            wrong[0] = 1;\n";
    case Method::Thermalize:
        return R"(
        FOR(i, team.numMobile) {
            const float4 noise = random[randomIndex + head[3] + i];
            const mixed amplitude = )" +
               amplitude + R"(*sqrt(team.inverseMasses[i]);
            team.a[3*i] = amplitude*noise.x;
            team.a[3*i + 1] = amplitude*noise.y;
            team.a[3*i + 2] = amplitude*noise.z;
        }
        FOR(p, team.numRows)
            team.w[p] = )" +
               read(Uniform::Decay) + "*team.w[p] + " + amplitude + R"(*
                    sqrt(getInverseInertia(&team, p))*random[randomIndex + head[3] + p].w;
        SYNC_THREADS
        addOfGroups(&team, )" +
               read(Uniform::Decay) + R"(, 1, team.roots);
        tieVelocities(&team);
)";
    case Method::Tie:
        return "        tieVelocities(&team);\n";
    }
    return "";
}

} // namespace

string TeamText::getHead() const {
    return define("TEAM_SIZE", std::to_string(TeamBlocks::teamSize)) +
           define("TILE", std::to_string(TeamBlocks::tileSize)) + define("TILES", std::to_string(team.countTiles())) +
           define("MATRIX", team.inScratch ? "GLOBAL" : "LOCAL_ARG") + define("BOX", std::to_string(uniformBox)) +
           define("MAX_ITERATIONS", std::to_string(stiffcore::maxDriftIterations)) +
           define("SLOW", Traced(stiffcore::slowConvergence).describe()) +
           define("MAX_FORCE", Traced(BlockText::maxForce).describe()) +
           define("SPEED_OF_LIGHT", Traced(stiffcore::speedOfLight).describe()) + functions +
           (team.ofRoots ? rootFunctions : "");
}

string TeamText::frame(const string& name, const string& body) const {
    string vectors;
    int place = 0;
    auto add = [&](const char* vector, int size) {
        vectors += string("        team.") + vector + " = numbers + " + std::to_string(place) + ";\n";
        place += size;
    };
    for (const char* ofAtoms : {"x", "v"})
        add(ofAtoms, 3 * team.numAtoms);
    add("u", 3 * team.numRows);
    for (const char* ofRows : {"lambda", "r"})
        add(ofRows, team.numRows);
    add("columns", 2 * TeamBlocks::tileSize * team.countTiles());
    if (!team.ofRoots) {
        add("a", 3 * team.numAtoms);
        add("before", 3 * team.numRows);
        for (const char* ofRows : {"w", "z", "correction"})
            add(ofRows, team.numRows);
    }
    if (team.inScratch)
        vectors += "        team.A = scratch + (int) GROUP_ID*" + std::to_string(team.getMatrixSize()) + ";\n";
    else
        add("A", team.getMatrixSize());
    return "KERNEL void " + name +
           "(ARGUMENTS, int numParticles, GLOBAL mixed* RESTRICT scratch) {\n    LOCAL mixed numbers[" +
           std::to_string(place) + R"(];
    LOCAL int wrong[2];
    const bool hasFailed = (failure[0] != 0 && failure[0] != phase); // a step before
    const mixed tolerance = )" +
           read(Uniform::Tolerance) + " > NUMBER(1e-14) ? " + read(Uniform::Tolerance) +
           R"( : NUMBER(1e-14);
    int block = GROUP_ID;
    do {
        GLOBAL const int* head = sets + 4*block;
        const int begin = head[2];
        GLOBAL const int* there = particles + begin;
        Team team;
        setUp(&team, sets + head[0], parameters + head[1], hasFailed);
        team.uniform = uniform;
)" + vectors +
           body + "        SYNC_THREADS\n        block += NUM_GROUPS;\n    } while (block < count);\n}\n";
}

string TeamText::getKernel(const string& name, const Method& method,
                           const stiffcore::PhaseList<Method::Phase>& list) const {
    const Effect effect = stiffcore::getEffectOf<Method>(list.phases);
    string body = string("        if (LOCAL_ID == 0)\n            wrong[0] = wrong[1] = 0;") + load;
    for (Method::Phase phase : list.phases)
        body += getPhase(phase, method);
    body += "        SYNC_THREADS\n        FOR(i, team.numMobile) {";
    if (list.begins)
        body += "\n            KEEP_STATE(there[i])";
    if (effect == Effect::Positions)
        body += R"(
            STORE_POSITION(there[i], origin.x + team.x[3*i], origin.y + team.x[3*i + 1], origin.z + team.x[3*i + 2]))";
    if (effect != Effect::Nothing)
        body += storeVelocity + string(R"(
            const mixed square = multiply(team.v + 3*i, team.v + 3*i);
            if (!(isFiniteNumber(square) && square < SPEED_OF_LIGHT*SPEED_OF_LIGHT))
                FAIL(4*there[i] + )") +
                std::to_string(stiffhost::Device::VelocityFailed) + ")";
    body += R"(
        }
        SYNC_THREADS
        if (LOCAL_ID == 0 && wrong[0] + wrong[1] != 0)
            FAIL(4*(firstBlock + block) + (wrong[1] != 0 ? )" +
            std::to_string(stiffhost::Device::ForcesFailed) + " : " + std::to_string(stiffhost::Device::BlockFailed) +
            "))\n";
    return frame(name, body);
}

string TeamText::getShow(const string& name) const {
    return frame(name, load +
                               ("        FOR(i, team.numMobile)\n            " + keptPlace(KeptVector::Velocity) +
                                " = make_mixed4(team.v[3*i], team.v[3*i + 1], team.v[3*i + 2], 0);\n") +
                               R"(
        computeLengths(&team, true);
        computeMatrix(&team);
        factor(&team);
        applyInverseRoot(&team);
        FOR(i, team.numMobile) {)" +
                               storeVelocity + "\n        }\n");
}
string TeamText::getPropagate(const string& name) const {
    return frame(name, R"(
        FOR(i, team.numMobile) {
            const mixed4 v = )" +
                               keptPlace(KeptVector::Velocity) + R"(;
            velm[there[i]] = make_mixed4(v.x, v.y, v.z, velm[there[i]].w);
        }
)");
}

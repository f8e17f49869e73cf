#ifndef STIFFDEVICE_BLOCK_TEXT_H_
#define STIFFDEVICE_BLOCK_TEXT_H_

#include "stiffcore/methods/Elementary.h"
#include "stiffcore/methods/Phases.h"
#include "stiffcore/rows/Rows.h"
#include "stiffcore/trace/Traced.h"
#include "stiffhost/Device.h"
#include <array>
#include <map>
#include <string>
#include <vector>

namespace stiffcore {

template <> inline Traced getRowRegularization<Traced>() {
    return Trace::get().read("REGULARIZATION");
}

} // namespace stiffcore

namespace stiffdevice {

using stiffcore::Traced, stiffcore::Uniform;

/** The vectors that are kept for a particle from one kernel to others. */
enum class KeptVector { Acceleration, Velocity, Count };


/// The box vectors, a_x, b_x, b_y, c_x, c_y, c_z, follow the numbers in the array `uniform`.
constexpr int uniformBox = int(Uniform::Count), numUniforms = uniformBox + 6;

/**
 * The text of kernels that work on blocks of the same build, one a thread, in the C that OpenMM's platforms for devices
 * have in common. What it takes from the arrays of a device and gives to them is asked for here; what it does in between
 * is recorded (see stiffcore::Trace). All kernels have the same arguments, see getHead().
 *
 * Positions are taken relative to the first particle of the block, so that little of them is lost where they are in
 * single precision. What a block begins a step with is kept, for the case that the step fails.
 */
class BlockText {
public:
    using Vector = stiffcore::Vector3<Traced>;
    /// Devices add forces up in 64 bits, with 32 behind the point. What is infinite or not a number becomes something
    /// near the limit of that.
    static constexpr double maxForce = 0x40000000;

    /** @param name   of the kernel */
    explicit BlockText(const std::string& name) : name(name) {
    }

    /** The next of the numbers in which blocks differ. */
    Traced parameter() {
        declare("set", "int", "sets[block]");
        return trace.read("parameters[" + std::to_string(numParameters++) + " + set]");
    }
    Traced uniform(Uniform which) {
        return uniform(int(which));
    }
    stiffcore::BoxFor<Traced> box() {
        stiffcore::BoxFor<Traced> box;
        int next = uniformBox;
        for (int i = 0; i < 3; i++)
            for (int j = 0; j <= i; j++)
                box.vectors[i][j] = uniform(next++);
        return box;
    }

    // The Port of a block, see stiffcore/methods/Phases.h.

    template <class Batch, class V> void loadForces(const Batch& batch, V& vectors) {
        for (int i = 0; i < batch.numMobile; i++) {
            const std::string a = particle(i);
            vectors[i] = read([&](char axis) { return "FORCE(" + a + ", " + char(axis - 'x' + '0') + ")"; });
            for (int axis = 0; axis < 3; axis++)
                inRange = inRange & (abs(vectors[i][axis]) < Traced(maxForce));
        }
    }
    template <class Batch, class V> void recall(const Batch& batch, V& accelerations) {
        load(batch, KeptVector::Acceleration, accelerations);
    }
    template <class Batch, class V> void keep(const Batch& batch, const V& accelerations) {
        keep(batch, KeptVector::Acceleration, accelerations);
    }
    template <class Batch, class V> void load(const Batch& batch, KeptVector which, V& vectors) {
        for (int i = 0; i < batch.numMobile; i++) {
            const std::string k = "k" + std::to_string(i) + "_" + std::to_string(int(which));
            declare(k, "mixed4", keptPlace(batch, i, which));
            vectors[i] = read([&](char axis) { return k + "." + axis; });
        }
    }
    template <class Batch, class V> void keep(const Batch& batch, KeptVector which, const V& vectors) {
        for (int i = 0; i < batch.numMobile; i++)
            trace.add(keptPlace(batch, i, which) + " = make_mixed4(" + list(vectors[i]) + ", 0);");
    }
    template <class Batch, class V> void drawNoise(const Batch& batch, V& vectors) {
        for (int i = 0; i < batch.numMobile; i++) {
            const Traced x = normal(), y = normal(), z = normal();
            vectors[i] = Vector(x, y, z) * Traced(uniform(Uniform::NoiseAmplitude) * sqrt(batch.inverseMasses[i]));
        }
    }
    template <class Batch> void drawTermNoise(const Batch& batch, std::vector<Traced>& numbers) {
        const Traced amplitude = uniform(Uniform::NoiseAmplitude);
        for (int p = 0; p < batch.numRows(); p++)
            numbers[p] = batch.row(p).constrained ? Traced(0) : normal() * amplitude * sqrt(batch.inverseInertias[p]);
    }
    void require(const Traced::Mask& condition) {
        succeeded = succeeded & condition;
    }

    /** Record phases of a method. */
    template <class Method, class Batch, class Workspace>
    void record(const Method& method, const stiffcore::PhaseList<typename Method::Phase>& list, const Batch& batch,
                Workspace& work) {
        const stiffcore::Effect effect = stiffcore::getEffectOf<Method>(list.phases);
        if (effect != stiffcore::Effect::Nothing)
            loadState(batch, work);
        else
            loadPositions(batch, work);
        for (typename Method::Phase phase : list.phases)
            method.execute(phase, batch, work, *this);
        for (int i = 0; i < batch.numMobile; i++) {
            if (list.begins)
                trace.add("KEEP_STATE(" + particle(i) + ")");
            if (effect == stiffcore::Effect::Positions)
                storePosition(i, work.x[i]);
            if (effect != stiffcore::Effect::Nothing) {
                storeVelocity(i, work.v[i]);
                requirePossible(i, work.v[i]);
            }
        }
        require(succeeded, "firstBlock + block", stiffhost::Device::BlockFailed);
        require(inRange, "firstBlock + block", stiffhost::Device::ForcesFailed);
    }

    /** Positions of the particles of a block, relative to that of the first, and velocities. */
    template <class Batch, class Workspace> void loadState(const Batch& batch, Workspace& work) {
        loadPositions(batch, work);
        for (int i = 0; i < batch.numParticles(); i++) {
            work.v[i] = Vector::Zero();
            work.a[i] = Vector::Zero();
            if (i < batch.numMobile) {
                const std::string v = declareVelocity(i);
                work.v[i] = read([&](char axis) { return v + "." + axis; });
            }
        }
    }
    void storeVelocity(int i, const Vector& velocity) {
        trace.add("velm[" + particle(i) + "] = make_mixed4(" + list(velocity) + ", " + declareVelocity(i) + ".w);");
    }

    /** How many elements of four random numbers a block takes. */
    int getNumRandoms() const {
        return (numNormals + 3) / 4;
    }
    std::string getText() const {
        return "KERNEL void " + name +
               "(ARGUMENTS) {\n"
               // Another block may be failing in this phase: this one goes on with either number.
               "    if (failure[0] != 0 && failure[0] != phase)\n"
               "        return; // the state is that of a step that has failed before\n"
               "    for (int block = GLOBAL_ID; block < count; block += GLOBAL_SIZE) {\n" +
               trace.getText() + "    }\n}\n";
    }

    /// In one group, which execute removeMotion().
    static constexpr int motionThreads = 64;
    /** What comes before the kernels of a program. */
    static std::string getHead() {
        return "#define MOTION_THREADS " + std::to_string(motionThreads) + R"(
#if defined(USE_DOUBLE_PRECISION) || defined(USE_MIXED_PRECISION)
#define NUMBER(x) (x)
#define TINY 1e-200
#define REGULARIZATION 1e-9
#else
#define NUMBER(x) (x##f)
#define TINY 1e-37f
#define REGULARIZATION 2e-6f
#endif
// By its bits, as an integer: compilers may be told that all numbers are finite, and know other ways to ask.
inline DEVICE bool isFiniteNumber(mixed number) {
#if defined(USE_DOUBLE_PRECISION) || defined(USE_MIXED_PRECISION)
    union { double value; mm_long bits; } number_;
    number_.value = number;
    return (number_.bits & 0x7fffffffffffffff) < 0x7fe0000000000000;
#else
    union { float value; unsigned int bits; } number_;
    number_.value = number;
    return (number_.bits & 0x7fffffff) < 0x7f000000;
#endif
}
#define SAME(a, b) (a[i].x == b[i].x && a[i].y == b[i].y && a[i].z == b[i].z)
#define FORCE(i, axis) (NUMBER(2.3283064365386963e-10)*force[(i) + (axis)*paddedNumAtoms])
#define ARGUMENTS int count, int firstBlock, int phase, unsigned int randomIndex, int paddedNumAtoms, \
        GLOBAL const int* RESTRICT particles, GLOBAL const int* RESTRICT sets, \
        GLOBAL const mixed* RESTRICT parameters, GLOBAL const mixed* RESTRICT uniform, \
        GLOBAL const float4* RESTRICT random, GLOBAL const mm_long* RESTRICT force, GLOBAL int* RESTRICT failure, \
        GLOBAL mixed4* RESTRICT kept, GLOBAL mixed4* RESTRICT velm, GLOBAL mixed4* RESTRICT velmBefore, \
        GLOBAL real4* RESTRICT posq, GLOBAL real4* RESTRICT posqBefore CORRECTIONS
#define FAIL(what) { failure[1] = what; failure[0] = phase; }
#ifdef USE_MIXED_PRECISION
#define CORRECTIONS , GLOBAL real4* RESTRICT posqCorrection, GLOBAL real4* RESTRICT correctionBefore
#define POSITION(i) make_mixed4(posq[i].x + (mixed) posqCorrection[i].x, posq[i].y + (mixed) posqCorrection[i].y, \
        posq[i].z + (mixed) posqCorrection[i].z, 0)
#define KEEP_STATE(i) { velmBefore[i] = velm[i]; posqBefore[i] = posq[i]; correctionBefore[i] = posqCorrection[i]; }
#define STORE_POSITION(i, X, Y, Z) { \
        const mixed x_ = X, y_ = Y, z_ = Z; posq[i] = make_real4((real) x_, (real) y_, (real) z_, posq[i].w); \
        posqCorrection[i] = make_real4(x_ - (real) x_, y_ - (real) y_, z_ - (real) z_, 0); }
#else
#define CORRECTIONS
#define POSITION(i) posq[i]
#define KEEP_STATE(i) { velmBefore[i] = velm[i]; posqBefore[i] = posq[i]; }
#define STORE_POSITION(i, X, Y, Z) { posq[i] = make_real4(X, Y, Z, posq[i].w); }
#endif
// Whether the state is another than one that is remembered.
KERNEL void compareState(int numAtoms, GLOBAL int* RESTRICT changed, GLOBAL const mixed4* RESTRICT velm,
        GLOBAL const mixed4* RESTRICT otherVelm, GLOBAL const real4* RESTRICT posq, GLOBAL const real4* RESTRICT otherPosq
#ifdef USE_MIXED_PRECISION
        , GLOBAL const real4* RESTRICT correction, GLOBAL const real4* RESTRICT otherCorrection
#endif
        ) {
    for (int i = GLOBAL_ID; i < numAtoms; i += GLOBAL_SIZE) {
        bool same = SAME(velm, otherVelm) && SAME(posq, otherPosq);
#ifdef USE_MIXED_PRECISION
        same = same && SAME(correction, otherCorrection);
#endif
        if (!same)
            changed[0] = 1;
    }
}
// By one group of threads: take out the mean velocity, with weights whose sum is 1.
KERNEL void removeMotion(int numAtoms, GLOBAL const mixed* RESTRICT weights, GLOBAL mixed4* RESTRICT velm) {
    LOCAL mixed4 sums[MOTION_THREADS];
    mixed4 own = make_mixed4(0, 0, 0, 0);
    for (int i = LOCAL_ID; i < numAtoms; i += MOTION_THREADS) {
        own.x += weights[i]*velm[i].x;
        own.y += weights[i]*velm[i].y;
        own.z += weights[i]*velm[i].z;
    }
    sums[LOCAL_ID] = own;
    SYNC_THREADS;
    for (int number = MOTION_THREADS/2; number > 0; number /= 2) {
        if (LOCAL_ID < number) {
            sums[LOCAL_ID].x += sums[LOCAL_ID+number].x;
            sums[LOCAL_ID].y += sums[LOCAL_ID+number].y;
            sums[LOCAL_ID].z += sums[LOCAL_ID+number].z;
        }
        SYNC_THREADS;
    }
    for (int i = LOCAL_ID; i < numAtoms; i += MOTION_THREADS)
        if (velm[i].w != 0) {
            velm[i].x -= sums[0].x;
            velm[i].y -= sums[0].y;
            velm[i].z -= sums[0].z;
        }
}
)";
    }

private:
    template <class Batch, class Workspace> void loadPositions(const Batch& batch, Workspace& work) {
        const std::string origin = declarePosition(0);
        work.x[0] = Vector::Zero();
        for (int i = 1; i < batch.numParticles(); i++) {
            const std::string p = declarePosition(i);
            work.x[i] = read([&](char axis) { return p + "." + axis + " - " + origin + "." + axis; });
        }
    }
    void storePosition(int i, const Vector& position) {
        const std::string origin = declarePosition(0);
        std::string to;
        for (int axis = 0; axis < 3; axis++)
            to += ", " + origin + "." + "xyz"[axis] + " + " + position[axis].describe();
        trace.add("STORE_POSITION(" + particle(i) + to + ")");
    }
    /** The next normally distributed random number. */
    Traced normal() {
        const std::string r = "r" + std::to_string(numNormals / 4);
        declare(r, "float4", "random[randomIndex + " + std::to_string(numNormals / 4) + "*count + block]");
        return trace.read("(mixed) " + r + "." + "xyzw"[numNormals++ % 4]);
    }
    Traced uniform(int index) {
        return trace.read("uniform[" + std::to_string(index) + "]");
    }
    template <class Expression> Vector read(Expression&& expression) {
        const Traced x = trace.read(expression('x')), y = trace.read(expression('y')), z = trace.read(expression('z'));
        return Vector(x, y, z);
    }
    void declare(const std::string& variable, const std::string& type, const std::string& value) {
        if (declared[variable])
            return;
        declared[variable] = true;
        trace.add("const " + type + " " + variable + " = " + value + ";");
    }
    static std::string place(int i) {
        return std::to_string(i) + "*count + block";
    }
    template <class Batch> static std::string keptPlace(const Batch& batch, int i, KeptVector which) {
        return "kept[" + place(batch.numParticles() * int(which) + i) + "]";
    }
    /** The variable with the place of a particle in the arrays of the device. */
    std::string particle(int i) {
        const std::string a = "a" + std::to_string(i);
        declare(a, "int", "particles[" + place(i) + "]");
        return a;
    }
    std::string declarePosition(int i) {
        const std::string p = "p" + std::to_string(i);
        declare(p, "mixed4", "POSITION(" + particle(i) + ")");
        return p;
    }
    std::string declareVelocity(int i) {
        const std::string v = "v" + std::to_string(i);
        declare(v, "mixed4", "velm[" + particle(i) + "]");
        return v;
    }
    static std::string list(const Vector& value) {
        return value[0].describe() + ", " + value[1].describe() + ", " + value[2].describe();
    }
    void requirePossible(int i, const Vector& velocity) {
        const double most = stiffcore::speedOfLight * stiffcore::speedOfLight;
        const Traced square = velocity.squaredNorm();
        require(isFinite(square) & (square < Traced(most)) & inRange, particle(i), stiffhost::Device::VelocityFailed);
    }
    void require(const Traced::Mask& condition, const std::string& index, stiffhost::Device::FailureKind kind) {
        if (condition.isConstant())
            return;
        trace.add("if (!" + condition.describe() + ")");
        trace.add("    FAIL(4*(" + index + ") + " + std::to_string(kind) + ")");
    }

    stiffcore::Trace trace;
    std::string name;
    std::map<std::string, bool> declared;
    int numParameters = 0, numNormals = 0;
    Traced::Mask inRange = true, succeeded = true;
};

} // namespace stiffdevice

#endif /* STIFFDEVICE_BLOCK_TEXT_H_ */

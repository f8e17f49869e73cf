#ifndef OPENMM_STIFF_AT_END_H_
#define OPENMM_STIFF_AT_END_H_

namespace OpenMMStiff {

/** Calls a function when it goes out of scope, also by an exception: the function must throw none. */
template <class Function> class AtEnd {
public:
    explicit AtEnd(const Function& function) : function(function) {
    }
    AtEnd(const AtEnd&) = delete;
    ~AtEnd() {
        function();
    }

private:
    const Function function;
};

} // namespace OpenMMStiff

#endif /* OPENMM_STIFF_AT_END_H_ */

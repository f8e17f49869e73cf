#ifndef OPENMM_STIFF_WINDOWS_EXPORT_H_
#define OPENMM_STIFF_WINDOWS_EXPORT_H_

/*
 * OPENMM_EXPORT_STIFF marks what libOpenMMStiff shows to others: the public classes, the abstract kernels (their
 * type information must be the same object in every library, or Kernel::getAs() fails), and the internal
 * functions that the platform libraries call. Everything else is compiled with hidden visibility.
 */
#if defined(_WIN32)
    #if defined(OPENMM_STIFF_BUILDING_SHARED_LIBRARY)
        #define OPENMM_EXPORT_STIFF __declspec(dllexport)
    #else
        #define OPENMM_EXPORT_STIFF __declspec(dllimport)
    #endif
#else
    #define OPENMM_EXPORT_STIFF __attribute__((visibility("default")))
#endif

#endif /* OPENMM_STIFF_WINDOWS_EXPORT_H_ */

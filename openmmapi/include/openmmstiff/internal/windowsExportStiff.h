#ifndef OPENMM_STIFF_WINDOWS_EXPORT_H_
#define OPENMM_STIFF_WINDOWS_EXPORT_H_

/*
 * OPENMM_EXPORT_STIFF marks what libOpenMMStiff shows to others: the public classes, the abstract kernels (their
 * type information must be the same object in every library, or Kernel::getAs() fails), and the internal
 * functions that the platform libraries call. Everything else is compiled with hidden visibility.
 */
#define OPENMM_EXPORT_STIFF __attribute__((visibility("default")))

#endif /* OPENMM_STIFF_WINDOWS_EXPORT_H_ */

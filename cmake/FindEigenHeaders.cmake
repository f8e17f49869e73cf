# Find the headers of Eigen: in EIGEN_DIR if that is set, or in the Python environment (package cmeel-eigen), or where
# the system keeps them.
#
# Defines the target EigenHeaders. Paths stay out of the cache, as in FindOpenMM.cmake.

set(EIGEN_DIR "" CACHE PATH "The folder of Eigen's headers (default: that of the Python package cmeel-eigen)")

unset(EigenHeaders_PYTHON)
if(Python_EXECUTABLE)
    execute_process(COMMAND "${Python_EXECUTABLE}" "${CMAKE_CURRENT_LIST_DIR}/python_packages.py" eigen
        OUTPUT_VARIABLE EigenHeaders_PYTHON COMMAND_ERROR_IS_FATAL ANY)
endif()
find_path(EigenHeaders_INCLUDE_DIR NAMES Eigen/Core
    HINTS "${EIGEN_DIR}" "${EigenHeaders_PYTHON}" PATH_SUFFIXES eigen3 include/eigen3 NO_CACHE)

include(FindPackageHandleStandardArgs)
find_package_handle_standard_args(EigenHeaders
    REQUIRED_VARS EigenHeaders_INCLUDE_DIR
    REASON_FAILURE_MESSAGE
        "Install Eigen 3.4 (Debian's libeigen3-dev or the Python package cmeel-eigen), or set EIGEN_DIR.")

if(EigenHeaders_FOUND AND NOT TARGET EigenHeaders)
    add_library(EigenHeaders INTERFACE IMPORTED)
    set_target_properties(EigenHeaders PROPERTIES INTERFACE_INCLUDE_DIRECTORIES "${EigenHeaders_INCLUDE_DIR}")
endif()

# Find OpenMM: in OPENMM_DIR if that is set, or else in OpenMM_DIRECTORY if that is, or else in the Python environment
# (package openmm).
#
# Defines the targets OpenMM::OpenMM and OpenMM::CPU (OpenMM's CPU platform), and
#   OpenMM_VERSION     such as 8.6.1
#   OpenMM_SERIES      such as 8.6: within it, C++ classes keep their layout
#   OpenMM_DIRECTORY   the folder with include/ and lib/
#   OpenMM_PLUGINS     the folder of OpenMM's plugins
#
# Paths stay out of the cache: a build that pip isolates finds OpenMM at another place each time.

set(OPENMM_DIR "" CACHE PATH "The folder with OpenMM's include/ and lib/ (default: that of the Python package openmm)")

if(OPENMM_DIR)
    set(OpenMM_DIRECTORY "${OPENMM_DIR}")
elseif(NOT OpenMM_DIRECTORY AND Python_EXECUTABLE)
    execute_process(COMMAND "${Python_EXECUTABLE}" "${CMAKE_CURRENT_LIST_DIR}/python_packages.py" openmm
        OUTPUT_VARIABLE OpenMM_DIRECTORY COMMAND_ERROR_IS_FATAL ANY)
endif()
set(OpenMM_PLUGINS "${OpenMM_DIRECTORY}/lib/plugins")

find_path(OpenMM_INCLUDE_DIR NAMES OpenMM.h PATHS "${OpenMM_DIRECTORY}/include" NO_DEFAULT_PATH NO_CACHE)
find_library(OpenMM_LIBRARY NAMES OpenMM PATHS "${OpenMM_DIRECTORY}/lib" NO_DEFAULT_PATH NO_CACHE)
find_library(OpenMM_CPU_LIBRARY NAMES OpenMMCPU PATHS "${OpenMM_PLUGINS}" NO_DEFAULT_PATH NO_CACHE)

# The headers do not tell the version, the library does.
unset(OpenMM_VERSION)
if(OpenMM_INCLUDE_DIR AND OpenMM_LIBRARY)
    try_run(OpenMM_RUN OpenMM_COMPILED SOURCES "${CMAKE_CURRENT_LIST_DIR}/openmm_version.cpp"
        CMAKE_FLAGS "-DINCLUDE_DIRECTORIES=${OpenMM_INCLUDE_DIR}"
        LINK_LIBRARIES "${OpenMM_LIBRARY}"
        COMPILE_OUTPUT_VARIABLE OpenMM_COMPILE_OUTPUT
        RUN_OUTPUT_VARIABLE OpenMM_VERSION
        NO_CACHE)
    if(NOT OpenMM_COMPILED OR NOT OpenMM_RUN EQUAL 0)
        message(FATAL_ERROR "A program cannot be built with the OpenMM in ${OpenMM_DIRECTORY}:\n"
            "${OpenMM_COMPILE_OUTPUT}${OpenMM_VERSION}")
    endif()
    string(REGEX MATCH "^[0-9]+\\.[0-9]+" OpenMM_SERIES "${OpenMM_VERSION}")
endif()

include(FindPackageHandleStandardArgs)
find_package_handle_standard_args(OpenMM
    REQUIRED_VARS OpenMM_LIBRARY OpenMM_CPU_LIBRARY OpenMM_INCLUDE_DIR OpenMM_VERSION
    VERSION_VAR OpenMM_VERSION HANDLE_VERSION_RANGE
    REASON_FAILURE_MESSAGE "Set OPENMM_DIR to the folder with OpenMM's include/ and lib/, or Python_EXECUTABLE to a \
Python that has the package openmm.")

if(OpenMM_FOUND AND NOT TARGET OpenMM::OpenMM)
    add_library(OpenMM::OpenMM SHARED IMPORTED)
    set_target_properties(OpenMM::OpenMM PROPERTIES
        IMPORTED_LOCATION "${OpenMM_LIBRARY}"
        INTERFACE_INCLUDE_DIRECTORIES "${OpenMM_INCLUDE_DIR}")
    add_library(OpenMM::CPU SHARED IMPORTED)
    set_target_properties(OpenMM::CPU PROPERTIES
        IMPORTED_LOCATION "${OpenMM_CPU_LIBRARY}"
        INTERFACE_LINK_LIBRARIES OpenMM::OpenMM)
endif()

# One set of flags for everything of ours.
set(CMAKE_CXX_STANDARD 23)
set(CMAKE_CXX_STANDARD_REQUIRED ON)
set(CMAKE_CXX_EXTENSIONS OFF)
set(CMAKE_EXPORT_COMPILE_COMMANDS ON)
set(CMAKE_POSITION_INDEPENDENT_CODE ON)

set(SEMEL_SANITIZE "" CACHE STRING "Sanitizers to build with: 'address,undefined' or 'thread'")

add_library(semel_flags INTERFACE)
target_compile_options(semel_flags INTERFACE -Wall -Wextra -Wpedantic -Wshadow -Wconversion -Wnon-virtual-dtor
  -Woverloaded-virtual -Wswitch-enum -Werror)
if(SEMEL_SANITIZE)
  target_compile_options(semel_flags INTERFACE -fsanitize=${SEMEL_SANITIZE} -fno-omit-frame-pointer
    -fno-sanitize-recover=all)
  # gcc sees uninitialised variants where a sanitizer's checks have taken its analysis apart.
  target_compile_options(semel_flags INTERFACE -Wno-maybe-uninitialized)
  target_link_options(semel_flags INTERFACE -fsanitize=${SEMEL_SANITIZE})
  if(SEMEL_SANITIZE MATCHES "thread")
    # gcc warns that atomic_thread_fence is not seen by TSan; Asio uses it.
    target_compile_options(semel_flags INTERFACE -Wno-tsan)
  endif()
endif()

find_program(SEMEL_MOLD mold)
if(SEMEL_MOLD)
  target_link_options(semel_flags INTERFACE -fuse-ld=mold)
endif()

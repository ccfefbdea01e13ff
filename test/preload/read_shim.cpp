// Copyright (c) 2026 The Turnstile authors
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)

// Preloaded into a server (LD_PRELOAD), it makes each read from the file $TURNSTILE_DAMAGED_FILE fail, except for those
// at its beginning, and each fsync of it, as a damaged disk does.

#include <cerrno>
#include <cstdlib>
#include <dlfcn.h>
#include <sys/stat.h>
#include <sys/types.h>
#include <unistd.h>

namespace {

bool is_damaged(int file)
{
    // NOLINTNEXTLINE(concurrency-mt-unsafe): the server does not change its environment.
    const char* const path = std::getenv("TURNSTILE_DAMAGED_FILE");
    struct stat damaged{};
    struct stat other{};
    return path != nullptr && ::stat(path, &damaged) == 0 && ::fstat(file, &other) == 0 &&
           damaged.st_ino == other.st_ino && damaged.st_dev == other.st_dev &&
           ::lseek(file, 0, SEEK_CUR) != 0;
}

}  // namespace

extern "C" ssize_t read(int file, void* data, std::size_t size)
{
    static auto* const real =
        reinterpret_cast<ssize_t (*)(int, void*, std::size_t)>(::dlsym(RTLD_NEXT, "read"));
    if (!is_damaged(file))
        return real(file, data, size);
    errno = EIO;
    return -1;
}

extern "C" int fsync(int file)
{
    static auto* const real = reinterpret_cast<int (*)(int)>(::dlsym(RTLD_NEXT, "fsync"));
    if (!is_damaged(file))
        return real(file);
    errno = EIO;
    return -1;
}

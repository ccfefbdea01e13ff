// Copyright (c) 2026 The Turnstile authors
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)

// Preloaded into a server (LD_PRELOAD), it moves the time of day by as many microseconds as the file
// $TURNSTILE_CLOCK_OFFSET says, a number of 64 bits, which a test changes while the server runs. The
// monotonic clock is left alone, as it is when somebody sets the time. With $TURNSTILE_MOVED_CLOCK, it moves the time
// since the start of the machine instead, as if the machine had slept.

#include <cstdint>
#include <cstdlib>
#include <ctime>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <unistd.h>

namespace {

const std::int64_t zero = 0;
const volatile std::int64_t* offset = &zero;
clockid_t moved_clock = CLOCK_REALTIME;

// Before main: what is called even earlier sees the real time.
[[gnu::constructor]] void map_offset()
{
    // NOLINTNEXTLINE(concurrency-mt-unsafe): nobody else runs before main.
    if (std::getenv("TURNSTILE_MOVED_CLOCK") != nullptr)
        moved_clock = CLOCK_BOOTTIME;
    // NOLINTNEXTLINE(concurrency-mt-unsafe): nobody else runs before main.
    const char* const path = std::getenv("TURNSTILE_CLOCK_OFFSET");
    if (path == nullptr)
        return;
    const int file = ::open(path, O_RDONLY | O_CLOEXEC);
    if (file < 0)
        return;
    void* const mapped = ::mmap(nullptr, sizeof zero, PROT_READ, MAP_SHARED, file, 0);
    ::close(file);
    if (mapped != MAP_FAILED)
        offset = static_cast<const std::int64_t*>(mapped);
}

/// The time, in nanoseconds that may be negative or many, moved and in order.
template <class Fraction>
void move(std::time_t& seconds, Fraction& fraction, std::int64_t per_second)
{
    const std::int64_t moved = fraction + *offset % 1'000'000 * (per_second / 1'000'000);
    const std::int64_t carried = moved >= per_second ? 1 : moved < 0 ? -1 : 0;
    seconds += *offset / 1'000'000 + carried;
    fraction = static_cast<Fraction>(moved - carried * per_second);
}

}  // namespace

// The system is called directly: a function of the library would have to be looked up, and the allocator of a sanitizer
// may ask for the time while that allocates.
extern "C" int gettimeofday(timeval* now, void* zone) noexcept
{
    const int result = static_cast<int>(::syscall(SYS_gettimeofday, now, zone));
    if (result == 0 && moved_clock == CLOCK_REALTIME)
        move(now->tv_sec, now->tv_usec, 1'000'000);
    return result;
}

extern "C" int clock_gettime(clockid_t which, timespec* now) noexcept
{
    const int result = static_cast<int>(::syscall(SYS_clock_gettime, which, now));
    if (result == 0 && which == moved_clock)
        move(now->tv_sec, now->tv_nsec, 1'000'000'000);
    return result;
}

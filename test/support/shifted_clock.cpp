// Copyright (c) 2026 The Turnstile authors
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)

#include "shifted_clock.hpp"

#include <atomic>
#include <cstdlib>
#include <stdexcept>
#include <string>
#include <sys/mman.h>
#include <unistd.h>

namespace turnstile::test {

shifted_clock::shifted_clock()
{
    std::string name = (std::filesystem::temp_directory_path() / "turnstile-clock-XXXXXX").string();
    const int file = ::mkstemp(name.data());
    file_ = name;
    if (file < 0 || ::ftruncate(file, sizeof *offset_) != 0)
        throw std::runtime_error("no temporary file " + name);
    void* const mapped =
        ::mmap(nullptr, sizeof *offset_, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    ::close(file);
    if (mapped == MAP_FAILED)
        throw std::runtime_error("cannot map " + name);
    offset_ = static_cast<std::int64_t*>(mapped);

    // For the server only. Tests start servers before they start threads.
    ::setenv("TURNSTILE_CLOCK_OFFSET", name.c_str(), 1);  // NOLINT(concurrency-mt-unsafe)
    ::setenv("LD_PRELOAD", TURNSTILE_CLOCK_SHIM, 1);      // NOLINT(concurrency-mt-unsafe)
    server_ = std::make_unique<redis_server>();
    ::unsetenv("LD_PRELOAD");              // NOLINT(concurrency-mt-unsafe)
    ::unsetenv("TURNSTILE_CLOCK_OFFSET");  // NOLINT(concurrency-mt-unsafe)
}

shifted_clock::~shifted_clock()
{
    server_.reset();
    ::munmap(offset_, sizeof *offset_);
    std::error_code ignored;
    std::filesystem::remove(file_, ignored);
}

void shifted_clock::set_ahead(std::chrono::microseconds by)
{
    std::atomic_ref(*offset_).store(by.count());
}

std::chrono::seconds shifted_clock::ahead() const
{
    const auto real = std::chrono::system_clock::now().time_since_epoch();
    const std::string time = server_->cli({"TIME"});
    const std::chrono::seconds shown(std::stoll(time));
    return std::chrono::round<std::chrono::seconds>(shown - real);
}

}  // namespace turnstile::test

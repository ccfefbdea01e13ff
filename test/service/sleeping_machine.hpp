// Copyright (c) 2026 The Turnstile authors
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)

#ifndef TURNSTILE_TEST_SERVICE_SLEEPING_MACHINE_HPP
#define TURNSTILE_TEST_SERVICE_SLEEPING_MACHINE_HPP

#include "server_files.hpp"

#include <chrono>
#include <cstdint>
#include <fstream>
#include <string>
#include <vector>

namespace turnstile::test {

/// A machine for a server. While it sleeps, only the clock of leases continues.
class sleeping_machine
{
public:
    sleeping_machine() { std::ofstream(file_) << std::string(sizeof(std::int64_t), '\0'); }

    /// For the environment of the server.
    [[nodiscard]] std::vector<std::string> variables() const
    {
        return {std::string("LD_PRELOAD=") + TURNSTILE_CLOCK_SHIM,
                "TURNSTILE_MOVED_CLOCK=boot time", "TURNSTILE_CLOCK_OFFSET=" + file_};
    }

    /// Sleeps for @p time in total. The server seems to have slept when this returns.
    void sleep_for(std::chrono::microseconds time)
    {
        const std::int64_t offset = time.count();
        // The server has mapped the file, so it must not be cut.
        std::ofstream(file_, std::ios::in | std::ios::out | std::ios::binary)
            .write(reinterpret_cast<const char*>(&offset), sizeof offset);
    }

private:
    server_files where_;
    std::string file_ = where_.path / "offset";
};

}  // namespace turnstile::test

#endif

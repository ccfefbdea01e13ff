// Copyright (c) 2026 The Turnstile authors
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)

#include "cli/report.hpp"

#include <climits>
#include <cstddef>
#include <poll.h>
#include <string>
#include <unistd.h>

namespace turnstile::cli {

void report(std::string_view text)
{
    // A pipe that is ready accepts PIPE_BUF bytes. The value stands at the beginning of a message, the rule at its end.
    constexpr std::size_t most = PIPE_BUF / 2;
    std::string line = "turnstile: " + std::string(text);
    if (line.size() > most)
        line.replace(most / 2, line.size() - most, " ... ");
    line += '\n';
    pollfd ready{STDERR_FILENO, POLLOUT, 0};
    if (::poll(&ready, 1, 0) == 1 && (ready.revents & POLLOUT) != 0) [[maybe_unused]]
        const auto written = ::write(STDERR_FILENO, line.data(), line.size());
}

}  // namespace turnstile::cli

// Copyright (c) 2026 The Turnstile authors
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)

#ifndef TURNSTILE_CLI_REPORT_HPP
#define TURNSTILE_CLI_REPORT_HPP

#include <string_view>

namespace turnstile::cli {

/// Writes a line to the standard error, unless that would block: a program that has lost its lock must be ended, even if
/// nobody reads the messages.
void report(std::string_view text);

}  // namespace turnstile::cli

#endif

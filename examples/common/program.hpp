// Copyright (c) 2026 The Turnstile authors
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)

#ifndef TURNSTILE_EXAMPLES_COMMON_PROGRAM_HPP
#define TURNSTILE_EXAMPLES_COMMON_PROGRAM_HPP

#include <CLI/CLI.hpp>
#include <charconv>
#include <exception>
#include <fmt/format.h>
#include <string>
#include <string_view>
#include <system_error>

namespace examples {

/// Accepts whole numbers from @p least to @p most. The error names the rejected text, the
/// limits, and @p reason, which explains limits that are not obvious.
inline CLI::Validator whole_number(int least, int most, std::string_view reason = {})
{
    const auto rule = fmt::format("a whole number from {} to {}{}{}", least, most,
                                  reason.empty() ? "" : ", ", reason);
    const auto check = [least, most, rule](const std::string& text)
    {
        int value = 0;
        const auto error = std::from_chars(text.data(), text.data() + text.size(), value).ec;
        // CLI11 would read a number that begins with 0 as an octal one.
        const bool accepted = error == std::errc() && text == std::to_string(value) &&
                              value >= least && value <= most;
        return accepted ? std::string() : fmt::format("'{}' is not {}", text, rule);
    };
    return {check, fmt::format("[{}..{}]", least, most), ""};
}

/// For `co_spawn`: an exception that leaves the coroutine is thrown by the context's `run()`.
inline void rethrow(const std::exception_ptr& error)
{
    if (error)
        std::rethrow_exception(error);
}

}  // namespace examples

#endif

// Copyright (c) 2026 The Turnstile authors
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)

#ifndef TURNSTILE_SERVICE_LOG_HPP
#define TURNSTILE_SERVICE_LOG_HPP

#include <cstdint>
#include <initializer_list>
#include <string_view>
#include <variant>

namespace turnstile::service {

/// How important a line of the log is, the most important ones first.
enum class log_level
{
    error,
    warning,
    info,
    debug,
};

/// A detail of a line.
struct log_field
{
    std::string_view name;
    std::variant<std::string_view, std::int64_t> value;
};

/// Selects what @ref log writes: lines `TIME LEVEL MESSAGE NAME=VALUE...`, or with @p as_json, a JSON object for each
/// line. Without a call: no JSON, up to log_level::info.
void configure_log(log_level most, bool as_json);

/// Whether @ref log would write such a line. For callers whose details cost time.
[[nodiscard]] bool is_logged(log_level level) noexcept;

/// Writes a line to the standard error of the process.
void log(log_level level, std::string_view message, std::initializer_list<log_field> details = {});

}  // namespace turnstile::service

#endif

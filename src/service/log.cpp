// Copyright (c) 2026 The Turnstile authors
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)

#include "service/log.hpp"

#include "service/decode.hpp"

#include <algorithm>
#include <array>
#include <cstddef>
#include <ctime>
#include <fmt/chrono.h>
#include <string>
#include <unistd.h>

namespace turnstile::service {

namespace {

// Global, because the process has one standard error.
log_level most_detailed = log_level::info;
bool is_json = false;

constexpr std::array<std::string_view, 4> level_names{"error", "warning", "info", "debug"};

/// The time of day in UTC, as in 2026-11-24T03:07:03.123Z.
std::string now()
{
    std::timespec time{};
    std::timespec_get(&time, TIME_UTC);
    return fmt::format("{:%FT%T}.{:03}Z", fmt::gmtime(time.tv_sec), time.tv_nsec / 1'000'000);
}

std::string to_text(const log_field& detail)
{
    if (const auto* number = std::get_if<std::int64_t>(&detail.value))
        return std::to_string(*number);
    const auto text = std::get<std::string_view>(detail.value);
    if (is_utf8(text))
        return quoted(text);
    // The target of a request and an option may contain any bytes.
    std::string ascii(text);
    std::ranges::replace_if(ascii, [](unsigned char c) { return c >= 0x80; }, '?');
    return quoted(ascii);
}

}  // namespace

void configure_log(log_level most, bool as_json)
{
    most_detailed = most;
    is_json = as_json;
}

bool is_logged(log_level level) noexcept
{
    return level <= most_detailed;
}

void log(log_level level, std::string_view message, std::initializer_list<log_field> details)
{
    if (!is_logged(level))
        return;
    const std::string_view name = level_names[static_cast<std::size_t>(level)];
    std::string line;
    if (is_json)
    {
        line.append("{\"time\":\"").append(now()).append("\",\"level\":\"").append(name);
        line.append("\",\"message\":").append(to_text({"message", message}));
        for (const log_field& detail : details)
            line.append(",").append(quoted(detail.name)).append(":").append(to_text(detail));
        line += "}\n";
    }
    else
    {
        line.append(now()).append(" ").append(name).append(" ").append(message);
        for (const log_field& detail : details)
            line.append(" ").append(detail.name).append("=").append(to_text(detail));
        line += '\n';
    }
    // One write, so that lines of several processes do not mix. A log that cannot be written is no reason to stop.
    static_cast<void>(!::write(STDERR_FILENO, line.data(), line.size()));
}

}  // namespace turnstile::service

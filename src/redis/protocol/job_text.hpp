// Copyright (c) 2026 The Turnstile authors
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)

#ifndef TURNSTILE_SRC_REDIS_PROTOCOL_JOB_TEXT_HPP
#define TURNSTILE_SRC_REDIS_PROTOCOL_JOB_TEXT_HPP

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <turnstile/push_options.hpp>
#include <utility>
#include <vector>

// The texts that the scripts of job queues store and return; see lua/jobs/prologue.lua.

namespace turnstile::redis::detail {

/// The text in which the server stores a job.
[[nodiscard]] std::string job_record(const push_options& options, std::string_view payload);

/// The arguments of the script that adds a job, without the prefix.
[[nodiscard]] std::vector<std::string> push_arguments(const push_options& options,
                                                      std::string_view payload);

/// The payload and the level of a stored job; nothing if the text is no record.
[[nodiscard]] std::optional<std::pair<std::string, job_priority>> parse_job_record(
    std::string_view record);

/// The content of the text of an attempt. Numbers that cannot be parsed are 0.
struct parsed_attempt
{
    std::uint64_t id = 0;
    std::uint64_t token = 0;
    std::int64_t count = 0;
    /// How the last attempt failed, or `-`.
    char failure = '-';
    /// The end of the time limit, or 0.
    std::int64_t limit = 0;
    /// The request of the worker.
    std::uint64_t request = 0;
};

[[nodiscard]] parsed_attempt parse_attempt(std::string_view text) noexcept;

/// Splits off the first words of a text.
std::string_view split_job_words(std::string_view& text, std::size_t words) noexcept;

/// The number of words of an attempt.
inline constexpr std::size_t words_of_attempt = 6;

/// A word of a text, from 0.
[[nodiscard]] std::string_view job_word(std::string_view text, std::size_t which) noexcept;

}  // namespace turnstile::redis::detail

#endif

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

/// Splits off the first word of a text.
std::string_view take_job_word(std::string_view& text) noexcept;

/// A word of a text, from 0.
[[nodiscard]] std::string_view job_word(std::string_view text, std::size_t which) noexcept;

/// The number in a word; 0 if the word is not a number.
[[nodiscard]] std::int64_t job_number(std::string_view word) noexcept;

}  // namespace turnstile::redis::detail

#endif

// Copyright (c) 2026 The Turnstile authors
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)

#include "redis/protocol/job_text.hpp"

#include "redis/protocol/names.hpp"
#include "redis/protocol/protocol.hpp"

namespace turnstile::redis::detail {

std::string_view job_word(std::string_view text, std::size_t which) noexcept
{
    for (; which > 0; --which)
        next_word(text);
    return next_word(text);
}

std::string_view split_job_words(std::string_view& text, std::size_t words) noexcept
{
    const std::string_view whole = text;
    std::string_view last;
    for (; words > 0; --words)
        last = next_word(text);
    return whole.substr(0, static_cast<std::size_t>(last.data() + last.size() - whole.data()));
}

parsed_attempt parse_attempt(std::string_view text) noexcept
{
    parsed_attempt result;
    result.id = static_cast<std::uint64_t>(next_number(text));
    result.token = static_cast<std::uint64_t>(next_number(text));
    result.count = next_number(text);
    if (const std::string_view flags = next_word(text); !flags.empty())
        result.failure = flags.front();
    result.limit = next_number(text);
    const std::string_view worker = next_word(text);
    if (const auto waiter = parse_waiter_id(worker.substr(0, worker.find('/'))))
        result.request = waiter->sequence;
    return result;
}

std::string job_record(const push_options& options, std::string_view payload)
{
    const push_options usual;
    std::string record = std::to_string(1 + static_cast<int>(options.priority()));
    const std::string name = options.deduplication_id().value_or("");
    if (options.attempts() != usual.attempts() ||
        options.backoff_first() != usual.backoff_first() ||
        options.backoff_most() != usual.backoff_most() || options.timeout() || !name.empty())
        for (const std::int64_t each :
             {std::int64_t(options.attempts()), std::int64_t(options.backoff_first().count()),
              std::int64_t(options.backoff_most().count()),
              std::int64_t(options.timeout().value_or(push_options::duration(0)).count()),
              static_cast<std::int64_t>(name.size())})
            record.append(",").append(std::to_string(each));
    record.append(" ").append(name).append(payload);
    return record;
}

std::vector<std::string> push_arguments(const push_options& options, std::string_view payload)
{
    return {job_record(options, payload), std::to_string(1 + static_cast<int>(options.priority())),
            std::to_string(options.delay().count()), options.deduplication_id().value_or(""),
            std::to_string(options.window().count())};
}

std::optional<std::pair<std::string, job_priority>> parse_job_record(std::string_view record)
{
    if (record.empty() || record[0] < '1' || record[0] > '3')
        return std::nullopt;
    const auto level = static_cast<job_priority>(record[0] - '1');
    const std::string_view options = next_word(record);
    std::int64_t size = 0;
    if (const std::size_t comma = options.rfind(','); comma != std::string_view::npos)
        size = number_in(options.substr(comma + 1));
    if (size < 0 || static_cast<std::size_t>(size) > record.size())
        return std::nullopt;
    return std::pair(std::string(record.substr(static_cast<std::size_t>(size))), level);
}

}  // namespace turnstile::redis::detail

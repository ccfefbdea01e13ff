// Copyright (c) 2026 The Turnstile authors
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)

#include "redis/session/directory_answers.hpp"

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdint>
#include <turnstile/redis/error.hpp>
#include <utility>

#include "redis/protocol/protocol.hpp"
#include "redis/session/error_of.hpp"
#include "redis/session/inspection.hpp"
#include "redis/transport/identity.hpp"

namespace turnstile::redis::detail {

namespace {

std::chrono::milliseconds milliseconds_between(std::int64_t from, std::int64_t to) noexcept
{
    return std::chrono::duration_cast<std::chrono::milliseconds>(time_between(from, to));
}

/// Sets the status or the error that the first word of an answer names.
void set_status(parsed_answer& result, std::string_view word)
{
    using status = directory_status;
    constexpr std::array<std::pair<std::string_view, status>, 6> words{
        {{"ok", status::done},
         {"missing", status::missing},
         {"exists", status::exists},
         {"busy", status::busy},
         {"excess", status::excess},
         {"unheld", status::unheld}}};
    const auto* const found =
        std::ranges::find(words, word, &std::pair<std::string_view, status>::first);
    if (found != words.end())
        result.answer.status = found->second;
    else
        result.error = error_of_refusal(word);
}

}  // namespace

parsed_answer parse_listed_answer(std::string_view text)
{
    parsed_answer result;
    set_status(result, next_word(text));
    listed_semaphore& state = result.answer.state;
    state.value = next_number(text);
    state.waiters = static_cast<std::size_t>(next_number(text));
    state.permits = static_cast<std::size_t>(next_number(text));
    result.answer.fencing_token = static_cast<std::uint64_t>(next_number(text));
    result.answer.units = next_number(text);
    result.more = next_number(text) != 0;
    return result;
}

error_code end_call(call_names& names, named_call& call, std::string_view answer)
{
    const bool executed = answer.starts_with("ok");
    names.end(call, executed);
    // An ended permit stays ended.
    const bool is_final = executed || answer.starts_with("unheld");
    return call.repeated && !is_final ? errc::unknown_outcome : error_code();
}

void parse_entries(const std::vector<std::string>& leaves, semaphore_detail& result)
{
    std::string_view head = leaves.size() > 1 ? leaves[1] : std::string_view();
    const std::int64_t now = next_number(head);
    const auto permits = static_cast<std::size_t>(next_number(head));
    std::size_t i = 2;
    for (; i < leaves.size() && i < 2 + permits; ++i)
    {
        std::string_view text = leaves[i];
        listed_permit& each = result.permits.emplace_back();
        each.units = next_number(text);
        const std::int64_t fence = next_number(text);
        each.fencing_token = static_cast<std::uint64_t>(fence);
        // A token is the time of its grant.
        each.held_for = milliseconds_between(fence, now);
        each.lease_left = milliseconds_between(now, next_number(text));
        each.lease = std::chrono::milliseconds(next_number(text));
        each.client = text;
    }
    for (; i + 1 < leaves.size(); i += 2)
    {
        std::string_view text = leaves[i];
        listed_waiter& each = result.waiters.emplace_back();
        each.units = next_number(text);
        each.waiting_for = milliseconds_between(next_number(text), now);
        each.session = parse_identity(leaves[i + 1]).name;
    }
}

semaphore_page parse_names(const std::vector<std::string>& leaves, std::size_t limit)
{
    semaphore_page page;
    std::string_view total = leaves.at(0);
    page.total = static_cast<std::size_t>(next_number(total));
    for (std::size_t i = 1; i < leaves.size() && i <= limit; ++i)
        page.semaphores.emplace_back().name = leaves[i];
    if (leaves.size() > limit + 1 && limit > 0)
        page.next = leaves[limit];
    return page;
}

}  // namespace turnstile::redis::detail

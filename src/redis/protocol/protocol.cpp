// Copyright (c) 2026 The Turnstile authors
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)

#include "redis/protocol/protocol.hpp"

#include <algorithm>
#include <array>
#include <charconv>

namespace turnstile::redis::detail {

namespace {

constexpr std::array<std::string_view, number_of_operations> operation_names{
    "acquire", "release", "cancel", "renew",         "nudge",    "resync", "commit",
    "notify",  "requeue", "fetch",  "contributions", "transact", "count"};

// In the order of script_answer::status_code.
constexpr std::array<std::string_view, 19> status_names{
    "own",      "queued",  "asleep",    "busy",       "gone",   "released", "cancelled",
    "lost",     "unmet",   "unknown",   "impossible", "ok",     "excess",   "exists",
    "mismatch", "foreign", "wrongtype", "damaged",    "missing"};

/// Parses a time of a server's clock, or 0. Returns whether the text is valid.
bool parse_time(std::string_view text, std::int64_t& value) noexcept
{
    constexpr std::int64_t last = std::int64_t(1) << 53;
    return parse_number(text, value) && value >= 0 && value < last;
}

/// Parses `DEADLINE[,NEXT[,FIELD]]`. The next lease of a contribution expires at the time NEXT. FIELD is a field of the
/// state in which the script failed to undo a contribution. Returns whether the word is valid.
bool parse_deadline(std::string_view word, script_answer& result)
{
    const std::size_t first = std::min(word.find(','), word.size());
    const std::size_t second = std::min(word.find(',', first + 1), word.size());
    if (!parse_time(word.substr(0, first), result.deadline))
        return false;
    if (first == word.size())
        return true;
    if (second < word.size())
        result.bad_field = word.substr(second + 1);
    return parse_time(word.substr(first + 1, second - first - 1), result.next_expiry);
}

}  // namespace

/// See answer() in lua/prologue.lua.
std::optional<script_answer> parse_answer(std::string_view text)
{
    const auto* const name = std::ranges::find(status_names, next_word(text));
    if (name == status_names.end())
        return std::nullopt;
    std::int64_t more = 0;
    script_answer result;
    result.status = static_cast<script_answer::status_code>(name - status_names.begin());
    // A reply with `foreign` or a later status contains nothing else.
    if (result.status < script_answer::status_code::foreign &&
        (!parse_time(next_word(text), result.now) || !parse_time(next_word(text), result.fence) ||
         !parse_deadline(next_word(text), result)))
        return std::nullopt;
    for (std::int64_t* const number : {&result.ticket, &more})
        // TICKET, MORE and EXTRA may all be missing.
        if (!text.empty() && !parse_number(next_word(text), *number))
            return std::nullopt;
    result.more = more != 0;
    result.extra = text;
    return result;
}

client_result result_of(script_answer::status_code status) noexcept
{
    return result_of(status_names[static_cast<std::size_t>(status)])
        .value_or(client_result::refused);
}

std::int64_t script_answer::extra_number() const noexcept
{
    std::string_view text = extra;
    return next_number(text);
}

bool parse_number(std::string_view text, std::int64_t& value) noexcept
{
    const auto [stop, error] = std::from_chars(text.data(), text.data() + text.size(), value);
    return error == std::errc() && stop == text.data() + text.size();
}

std::int64_t number_in(std::string_view word) noexcept
{
    std::int64_t number = 0;
    return parse_number(word, number) ? number : 0;
}

std::int64_t next_number(std::string_view& text) noexcept
{
    return number_in(next_word(text));
}

std::string_view next_word(std::string_view& text) noexcept
{
    const std::size_t end = std::min(text.find(' '), text.size());
    const std::string_view word = text.substr(0, end);
    text.remove_prefix(std::min(end + 1, text.size()));
    return word;
}

bool is_transient(std::string_view error) noexcept
{
    constexpr std::array<std::string_view, 9> codes{"READONLY",    "LOADING",    "NOREPLICAS",
                                                    "CLUSTERDOWN", "MASTERDOWN", "TRYAGAIN",
                                                    "BUSY",        "NOSCRIPT",   "MISCONF"};
    return std::ranges::any_of(codes, [&](auto code) { return error.starts_with(code); });
}

bool has_failed_inside(std::string_view error) noexcept
{
    return error.find(" script: ") != std::string_view::npos;
}

bool is_damage(std::string_view error) noexcept
{
    // If a number is missing, Lua reports an attempt to compute with nil.
    constexpr std::array<std::string_view, 5> signs{
        "WRONGTYPE ", ": attempt to ", ": bad argument #", " arguments must be strings or integers",
        not_understood};
    return std::ranges::any_of(signs, [&](auto sign)
                               { return error.find(sign) != std::string_view::npos; });
}

std::string damage_text(const std::string& key, std::string_view error)
{
    const std::string cause = error.empty() ? std::string() : " (" + std::string(error) + ')';
    return "the state at the key '" + key + "' is damaged" + cause +
           "; delete that key, or leave it alone until it has expired";
}

std::string name_of(operation op, object_kind kind)
{
    const std::string_view prefix = kind == object_kind::pool ? "pool_" : "";
    return std::string(prefix).append(operation_names[static_cast<std::size_t>(op)]);
}

std::optional<std::vector<script_answer>> parse_answers(std::span<const std::string> texts)
{
    if (texts.empty())
        return std::nullopt;
    std::vector<script_answer> result;
    result.reserve(texts.size());
    for (const std::string& each : texts)
    {
        auto answer = parse_answer(each);
        if (!answer && texts.size() == 1)
            return std::nullopt;
        if (!answer)
            answer.emplace().status = script_answer::status_code::damaged;
        result.push_back(std::move(*answer));
    }
    return result;
}

std::optional<field_map> parse_state(std::string_view text)
{
    const auto next = [&text]() -> std::optional<std::string>
    {
        const std::size_t colon = text.find(':');
        std::int64_t size = 0;
        if (colon == std::string_view::npos || !parse_number(text.substr(0, colon), size))
            return std::nullopt;
        text.remove_prefix(colon + 1);
        if (size < 0 || static_cast<std::uint64_t>(size) > text.size())
            return std::nullopt;
        std::string part(text.substr(0, static_cast<std::size_t>(size)));
        text.remove_prefix(part.size());
        return part;
    };
    field_map result;
    while (!text.empty())
    {
        auto name = next();
        auto value = name ? next() : std::nullopt;
        if (!value)
            return std::nullopt;
        result.emplace(std::move(*name), std::move(*value));
    }
    return result;
}

std::optional<message> parse_message(std::string_view text)
{
    message result;
    // In the order of message::kind.
    constexpr std::array<std::string_view, 7> kinds{"grant",      "lost",    "released", "unmet",
                                                    "impossible", "missing", "due"};
    const auto what = std::ranges::find(kinds, next_word(text));
    if (what == kinds.end())
        return std::nullopt;
    result.what = static_cast<message::kind>(what - kinds.begin());
    const auto id = parse_waiter_id(next_word(text));
    if (!id || !parse_time(next_word(text), result.fence))
        return std::nullopt;
    result.id = *id;
    const bool has_deadline =
        result.what == message::kind::grant || result.what == message::kind::due;
    if (has_deadline && !parse_time(next_word(text), result.deadline))
        return std::nullopt;
    if (!parse_time(next_word(text), result.now))
        return std::nullopt;
    if (result.what == message::kind::grant && text.starts_with('='))
    {
        result.state = parse_state(text.substr(1));
        if (!result.state)
            return std::nullopt;
        return result;
    }
    // Words that a later version appends are ignored.
    result.is_broken = result.what == message::kind::lost && next_word(text) == "broken";
    return result;
}

}  // namespace turnstile::redis::detail

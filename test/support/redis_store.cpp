// Copyright (c) 2026 The Turnstile authors
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)

#include "redis_store.hpp"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <limits>

namespace turnstile::test {

namespace {

using kind = redis_reply::kind;

redis_reply wrong_type()
{
    return redis_reply::error("WRONGTYPE Operation against a key holding the wrong kind of value");
}

redis_reply no_integer()
{
    return redis_reply::error("ERR value is not an integer or out of range");
}

redis_reply no_float()
{
    return redis_reply::error("ERR value is not a valid float");
}

bool to_integer(std::string_view text, std::int64_t& value)
{
    const char* const begin = text.data();
    const char* const end = begin + text.size();
    return std::from_chars(begin, end, value) == std::from_chars_result{end, std::errc()};
}

bool to_score(const std::string& text, double& value)
{
    if (text == "-inf" || text == "+inf" || text == "inf")
    {
        value = std::numeric_limits<double>::infinity() * (text[0] == '-' ? -1 : 1);
        return true;
    }
    char* end = nullptr;
    value = std::strtod(text.c_str(), &end);
    return !text.empty() && *end == '\0' && !std::isnan(value);
}

redis_reply score_reply(double score)
{
    std::array<char, 40> digits{};
    std::snprintf(digits.data(), digits.size(), "%.17g", score);
    return redis_reply::of(std::string(digits.data()));
}

void collect(const redis_reply& reply, std::vector<std::string>& leaves)
{
    if (reply.what == kind::array)
        for (const redis_reply& each : reply.elements)
            collect(each, leaves);
    else
        leaves.push_back(reply.what == kind::integer ? std::to_string(reply.number) : reply.text);
}

}  // namespace

// --- replies ------------------------------------------------------------------------------------

std::vector<std::string> redis_reply::leaves() const
{
    std::vector<std::string> result;
    collect(*this, result);
    return result;
}

std::string to_string(const redis_reply& reply)
{
    switch (reply.what)
    {
    case kind::nil:
        return "nil";
    case kind::integer:
        return std::to_string(reply.number);
    case kind::string:
        return '"' + reply.text + '"';
    case kind::status:
        return '+' + reply.text;
    case kind::error:
        return '-' + reply.text;
    case kind::array:
        break;
    }
    std::string result = "[";
    for (const redis_reply& each : reply.elements)
        result += (result.size() > 1 ? ", " : "") + to_string(each);
    return result + "]";
}

// --- keys ---------------------------------------------------------------------------------------

bool redis_store::sorted_set::insert(const std::string& member, double score)
{
    const bool added = !erase(member);
    scores.emplace(member, score);
    order.emplace(score, member);
    return added;
}

bool redis_store::sorted_set::erase(const std::string& member)
{
    const auto found = scores.find(member);
    if (found == scores.end())
        return false;
    order.erase({found->second, member});
    scores.erase(found);
    return true;
}

bool redis_store::is_over(const entry& each) const
{
    return milliseconds() > each.expires.value_or(std::numeric_limits<std::int64_t>::max());
}

const redis_store::entry* redis_store::find(std::string_view key) const
{
    const auto found = keys_.find(key);
    if (found == keys_.end() || is_over(found->second))
        return nullptr;
    return &found->second;
}

redis_store::entry* redis_store::find(std::string_view key)
{
    const auto found = keys_.find(key);
    if (found == keys_.end())
        return nullptr;
    if (is_over(found->second))
    {
        keys_.erase(found);
        return nullptr;
    }
    return &found->second;
}

std::size_t redis_store::key_count() const
{
    return static_cast<std::size_t>(
        std::ranges::count_if(keys_, [this](const auto& each) { return exists(each.first); }));
}

std::string redis_store::key_names() const
{
    std::string result;
    for (const auto& [name, value] : keys_)
        if (exists(name))
            result += (result.empty() ? "" : " ") + name;
    return result;
}

const redis_store::fields* redis_store::hash(std::string_view key) const
{
    const entry* found = find(key);
    return found != nullptr ? std::get_if<fields>(&found->value) : nullptr;
}

const redis_store::sequence* redis_store::list_at(std::string_view key) const
{
    const entry* found = find(key);
    return found != nullptr ? std::get_if<sequence>(&found->value) : nullptr;
}

const redis_store::sorted_set* redis_store::zset(std::string_view key) const
{
    const entry* found = find(key);
    return found != nullptr ? std::get_if<sorted_set>(&found->value) : nullptr;
}

template <class Value>
Value* redis_store::get(std::string_view key, bool& wrong)
{
    entry* found = find(key);
    Value* value = found != nullptr ? std::get_if<Value>(&found->value) : nullptr;
    wrong = found != nullptr && value == nullptr;
    return value;
}

template <class Value>
Value& redis_store::make(std::string_view key)
{
    if (find(key) == nullptr)
        keys_[std::string(key)].value = Value();
    return std::get<Value>(keys_.find(key)->second.value);
}

void redis_store::drop_if_empty(std::string_view key)
{
    const sorted_set* const set = zset(key);
    const fields* const map = hash(key);
    const sequence* const elements = list_at(key);
    if ((set != nullptr && set->scores.empty()) || (map != nullptr && map->empty()) ||
        (elements != nullptr && elements->empty()))
        keys_.erase(keys_.find(key));
}

// --- commands -----------------------------------------------------------------------------------

redis_reply redis_store::run(words args)
{
    const std::string_view name = args[0];
    if (name == refused_command)
        return redis_reply::error("NOPERM this user has no permissions to run the command");
    if (name == "TIME")
        return {kind::array,
                0,
                {},
                {redis_reply::of(std::to_string(clock / 1000000)),
                 redis_reply::of(std::to_string(clock % 1000000))}};
    if (name == "PUBLISH" && args.size() == 3)
        return publish(args);
    if (name == "PUBSUB" && args.size() == 3 && args[1] == "NUMSUB")
    {
        const auto found = subscribers.find(args[2]);
        const std::int64_t number = found == subscribers.end() ? 0 : found->second;
        return {kind::array, 0, {}, {redis_reply::of(args[2]), redis_reply::of(number)}};
    }
    if (name == "PEXPIRE" && args.size() >= 3)
        return pexpire(args);
    if (name == "PERSIST" && args.size() == 2)
    {
        entry* found = find(args[1]);
        const bool had = found != nullptr && found->expires.has_value();
        if (had)
            found->expires.reset();
        return redis_reply::of(had ? 1 : 0);
    }
    if (name == "PTTL" && args.size() == 2)
    {
        const entry* found = find(args[1]);
        if (found == nullptr)
            return redis_reply::of(-2);
        return redis_reply::of(found->expires ? *found->expires - milliseconds() : -1);
    }
    if (name == "EXISTS" && args.size() == 2)
        return redis_reply::of(exists(args[1]) ? 1 : 0);
    if (name == "DEL" && args.size() == 2)
    {
        const bool there = exists(args[1]);
        keys_.erase(args[1]);
        return redis_reply::of(there ? 1 : 0);
    }
    if (name == "SET" && args.size() == 3)
    {
        keys_[args[1]] = {args[2], std::nullopt};
        return {kind::status, 0, "OK", {}};
    }
    if (name.starts_with('H'))
        return run_hash(name, args);
    if (name.starts_with('Z'))
        return run_zset(name, args);
    if (name.starts_with('L') || name.starts_with('R'))
        return run_list(name, args);
    throw unknown_command("the fake of Redis does not know " + args[0]);
}

redis_reply redis_store::run_hash(std::string_view name, words args)
{
    bool wrong = false;
    fields* map = get<fields>(args[1], wrong);
    if (wrong)
        return wrong_type();
    if (name == "HGET" && args.size() == 3)
    {
        const auto found = map != nullptr ? map->find(args[2]) : fields::iterator();
        return map != nullptr && found != map->end() ? redis_reply::of(found->second)
                                                     : redis_reply();
    }
    if (name == "HLEN" && args.size() == 2)
        return redis_reply::of(map != nullptr ? static_cast<std::int64_t>(map->size()) : 0);
    if (name == "HGETALL" && args.size() == 2)
    {
        redis_reply result{kind::array, 0, {}, {}};
        if (map != nullptr)
            for (const auto& [field, value] : *map)
            {
                result.elements.push_back(redis_reply::of(field));
                result.elements.push_back(redis_reply::of(value));
            }
        return result;
    }
    if (name == "HINCRBY" && args.size() == 4)
    {
        std::int64_t sum = 0;
        std::int64_t more = 0;
        const auto found = map != nullptr ? map->find(args[2]) : fields::iterator();
        const bool there = map != nullptr && found != map->end();
        if (!to_integer(args[3], more))
            return no_integer();
        if ((there && !to_integer(found->second, sum)) || __builtin_add_overflow(sum, more, &sum))
            return redis_reply::error("ERR hash value is not an integer");
        make<fields>(args[1]).insert_or_assign(args[2], std::to_string(sum));
        return redis_reply::of(sum);
    }
    if (name == "HEXISTS" && args.size() == 3)
        return redis_reply::of(map != nullptr && map->contains(args[2]) ? 1 : 0);
    if (name == "HMGET" && args.size() >= 3)
    {
        redis_reply result{kind::array, 0, {}, {}};
        for (const std::string& field : args.subspan(2))
        {
            const auto found = map != nullptr ? map->find(field) : fields::iterator();
            const bool there = map != nullptr && found != map->end();
            result.elements.push_back(there ? redis_reply::of(found->second) : redis_reply());
        }
        return result;
    }
    if (name == "HSET" && args.size() >= 4 && args.size() % 2 == 0)
    {
        fields& target = make<fields>(args[1]);
        std::int64_t added = 0;
        for (std::size_t i = 2; i < args.size(); i += 2)
            added += target.insert_or_assign(args[i], args[i + 1]).second ? 1 : 0;
        return redis_reply::of(added);
    }
    if (name == "HDEL" && args.size() >= 3)
    {
        std::int64_t removed = 0;
        for (const std::string& field : args.subspan(2))
            if (map != nullptr)
                removed += static_cast<std::int64_t>(map->erase(field));
        drop_if_empty(args[1]);
        return redis_reply::of(removed);
    }
    throw unknown_command("the fake of Redis does not know this form of " + args[0]);
}

redis_reply redis_store::run_list(std::string_view name, words args)
{
    bool wrong = false;
    sequence* elements = get<sequence>(args[1], wrong);
    if (wrong)
        return wrong_type();
    const std::int64_t size = elements != nullptr ? std::ssize(*elements) : 0;
    if (name == "LLEN" && args.size() == 2)
        return redis_reply::of(size);
    if ((name == "LPUSH" || name == "RPUSH") && args.size() == 3)
    {
        sequence& target = make<sequence>(args[1]);
        target.insert(name == "LPUSH" ? target.begin() : target.end(), args[2]);
        return redis_reply::of(size + 1);
    }
    redis_reply result{kind::array, 0, {}, {}};
    std::int64_t first = 0;
    std::int64_t last = 0;
    if (name == "LPOP" && (args.size() == 2 || args.size() == 3))
    {
        if (elements == nullptr)
            return {};
        if (args.size() == 3 && !to_integer(args[2], last))
            return no_integer();
        for (last = args.size() == 2 ? 1 : std::min(last, size); last > 0; --last)
        {
            result.elements.push_back(redis_reply::of(elements->front()));
            elements->pop_front();
        }
        drop_if_empty(args[1]);
        return args.size() == 2 ? result.elements[0] : result;
    }
    if (name == "LRANGE" && args.size() == 4)
    {
        if (!to_integer(args[2], first) || !to_integer(args[3], last))
            return no_integer();
        // The scripts count from the head only.
        for (; first <= std::min(last, size - 1); ++first)
            result.elements.push_back(
                redis_reply::of((*elements)[static_cast<std::size_t>(first)]));
        return result;
    }
    throw unknown_command("the fake of Redis does not know this form of " + args[0]);
}

redis_reply redis_store::run_zset(std::string_view name, words args)
{
    bool wrong = false;
    sorted_set* set = get<sorted_set>(args[1], wrong);
    if (wrong)
        return wrong_type();
    if (name == "ZCARD" && args.size() == 2)
        return redis_reply::of(set != nullptr ? static_cast<std::int64_t>(set->scores.size()) : 0);
    if ((name == "ZSCORE" || name == "ZRANK") && args.size() == 3)
    {
        if (set == nullptr || !set->scores.contains(args[2]))
            return {};
        const double score = set->scores.find(args[2])->second;
        if (name == "ZSCORE")
            return score_reply(score);
        return redis_reply::of(
            std::distance(set->order.begin(), set->order.find({score, args[2]})));
    }
    const bool only_new = args.size() == 5 && args[2] == "NX";
    const bool only_changed = args.size() == 6 && args[2] == "XX" && args[3] == "CH";
    if (name == "ZADD" && (args.size() == 4 || only_new || only_changed))
    {
        double score = 0;
        const std::string& member = args[args.size() - 1];
        if (!to_score(args[args.size() - 2], score))
            return no_float();
        const bool is_known = set != nullptr && set->scores.contains(member);
        if ((only_new && is_known) || (only_changed && !is_known))
            return redis_reply::of(0);
        if (only_changed && set->scores.at(member) == score)
            return redis_reply::of(0);
        const bool is_new = make<sorted_set>(args[1]).insert(member, score);
        return redis_reply::of(is_new || only_changed ? 1 : 0);
    }
    if (name == "ZREM" && args.size() >= 3)
    {
        std::int64_t removed = 0;
        for (std::size_t i = 2; set != nullptr && i != args.size(); ++i)
            removed += set->erase(args[i]) ? 1 : 0;
        drop_if_empty(args[1]);
        return redis_reply::of(removed);
    }
    redis_reply list{kind::array, 0, {}, {}};
    if (name == "ZPOPMIN" && args.size() == 2)
    {
        if (set == nullptr)
            return list;
        const auto [score, member] = *set->order.begin();
        set->erase(member);
        drop_if_empty(args[1]);
        list.elements = {redis_reply::of(member), score_reply(score)};
        return list;
    }
    const bool with_scores = args.size() == 5 && args[4] == "WITHSCORES";
    if (name == "ZRANGE" && (args.size() == 4 || with_scores))
    {
        std::int64_t first = 0;
        std::int64_t last = 0;
        if (!to_integer(args[2], first) || !to_integer(args[3], last))
            return no_integer();
        const auto size =
            set != nullptr ? static_cast<std::int64_t>(set->order.size()) : std::int64_t(0);
        first = std::max<std::int64_t>(first < 0 ? first + size : first, 0);
        last = std::min(last < 0 ? last + size : last, size - 1);
        for (; first <= last; ++first)
        {
            const auto& [score, member] = *std::next(set->order.begin(), first);
            list.elements.push_back(redis_reply::of(member));
            if (with_scores)
                list.elements.push_back(score_reply(score));
        }
        return list;
    }
    const bool by_name = args.size() == 8 && args[3] == "+" && args[4] == "BYLEX" &&
                         args[5] == "LIMIT" && args[6] == "0";
    if (name == "ZRANGE" && by_name && (args[2] == "-" || args[2].starts_with('(')))
    {
        std::int64_t most = 0;
        if (!to_integer(args[7], most))
            return no_integer();
        if (set != nullptr)
            for (const auto& [member, score] : set->scores)
            {
                if (std::ssize(list.elements) == static_cast<std::ptrdiff_t>(most))
                    break;
                if (args[2] == "-" || member > args[2].substr(1))
                    list.elements.push_back(redis_reply::of(member));
            }
        return list;
    }
    if (name == "ZRANGEBYSCORE" && args.size() == 7 && args[4] == "LIMIT" && args[5] == "0")
    {
        double low = 0;
        double high = 0;
        std::int64_t most = 0;
        if (!to_score(args[2], low) || !to_score(args[3], high))
            return redis_reply::error("ERR min or max is not a float");
        if (!to_integer(args[6], most))
            return no_integer();
        if (set != nullptr)
            for (const auto& [score, member] : set->order)
            {
                if (std::ssize(list.elements) == static_cast<std::ptrdiff_t>(most) || score > high)
                    break;
                if (score >= low)
                    list.elements.push_back(redis_reply::of(member));
            }
        return list;
    }
    if (name == "ZREMRANGEBYSCORE" && args.size() == 4)
    {
        double low = 0;
        double high = 0;
        if (!to_score(args[2], low) || !to_score(args[3], high))
            return redis_reply::error("ERR min or max is not a float");
        std::int64_t removed = 0;
        if (set != nullptr)
            removed = static_cast<std::int64_t>(
                std::erase_if(set->order,
                              [&](const auto& each)
                              {
                                  const bool within = each.first >= low && each.first <= high;
                                  if (within)
                                      set->scores.erase(each.second);
                                  return within;
                              }));
        drop_if_empty(args[1]);
        return redis_reply::of(removed);
    }
    throw unknown_command("the fake of Redis does not know this form of " + args[0]);
}

redis_reply redis_store::pexpire(words args)
{
    std::int64_t span = 0;
    if (!to_integer(args[2], span))
        return no_integer();
    entry* found = find(args[1]);
    if (found == nullptr)
        return redis_reply::of(0);
    const std::int64_t at = milliseconds() + span;
    if (args.size() == 4 && args[3] == "GT" && (!found->expires || at <= *found->expires))
        return redis_reply::of(0);
    if (args.size() == 4 && args[3] == "NX" && found->expires)
        return redis_reply::of(0);
    if (args.size() > 4 || (args.size() == 4 && args[3] != "GT" && args[3] != "NX"))
        throw unknown_command("the fake of Redis does not know this form of PEXPIRE");
    if (span > 0)
        found->expires = at;
    else
        keys_.erase(args[1]);
    return redis_reply::of(1);
}

redis_reply redis_store::publish(words args)
{
    if (!publish_error.empty())
        return redis_reply::error(publish_error);
    published.emplace_back(args[1], args[2]);
    const auto found = subscribers.find(args[1]);
    const std::int64_t number = found == subscribers.end() ? 0 : found->second;
    switch (counts)
    {
    case count::one_more:
        return redis_reply::of(number + 1);
    case count::none:
        return redis_reply::of(0);
    default:
        return redis_reply::of(number);
    }
}

bool is_unresponsive(const redis_store& store, const std::string& key,
                     const std::string& connection)
{
    const auto* state = store.hash(key);
    const auto found =
        state != nullptr ? state->find("silent") : redis_store::fields::const_iterator();
    return state != nullptr && found != state->end() &&
           found->second.find(' ' + connection + ' ') != std::string::npos;
}

}  // namespace turnstile::test

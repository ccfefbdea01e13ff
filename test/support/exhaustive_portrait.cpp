// Copyright (c) 2026 The Turnstile authors
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)

#include "exhaustive_portrait.hpp"

#include <algorithm>
#include <array>
#include <limits>
#include <numeric>

namespace turnstile::test {

using redis::detail::local_time;

namespace {

using kind = portrait::kind;
using word = portrait::word;

/// Whether a word of this kind belongs to a client.
bool is_owned(kind what)
{
    return what == kind::client || what == kind::incarnation || what == kind::attempt ||
           what == kind::command;
}

/// Whether only the order of such words is compared.
bool is_ranked(kind what)
{
    return what == kind::place || (is_owned(what) && what != kind::client);
}

constexpr std::int64_t never = local_time::max().count();

// All times further in the past than any time span are equal.
constexpr std::int64_t long_ago = -16;

std::int64_t divide_up(std::int64_t value, std::int64_t by)
{
    return value >= 0 ? (value + by - 1) / by : -(-value / by);
}

std::int64_t divide_down(std::int64_t value, std::int64_t by)
{
    return -divide_up(-value, by);
}

/// The last step of Splitmix64, the public-domain generator by Sebastiano Vigna.
std::uint64_t mix(std::uint64_t value)
{
    value = (value ^ (value >> 30U)) * 0xBF58476D1CE4E5B9U;
    value = (value ^ (value >> 27U)) * 0x94D049BB133111EBU;
    return value ^ (value >> 31U);
}

/// Translates the words of one state.
class translator
{
public:
    explicit translator(const measure& by)
        : by_(by)
    {
        note(kind::stamp, 0, by.clock);
    }

    void read(const std::vector<word>& words)
    {
        for (const word& each : words)
            if (is_ranked(each.what) || (each.what == kind::stamp && each.value != 0))
                note(each.what, each.client, each.value);
    }

    void prepare()
    {
        for (auto& [whose, values] : values_)
        {
            std::ranges::sort(values);
            const auto rest = std::ranges::unique(values);
            values.erase(rest.begin(), rest.end());
        }
        measure_stamps();
    }

    [[nodiscard]] std::int64_t translate(const word& each) const
    {
        switch (each.what)
        {
        case kind::timer:
            return rest(each.value, time_step);
        case kind::moment:
            return rest(each.value, time_step / 4);
        case kind::server:
            return each.value == 0 ? never
                                   : std::max((each.value - by_.wall) / time_step, long_ago);
        case kind::ahead:
            return std::max(each.value - by_.wall, -by_.back);
        case kind::distance:
            // Without the margin for clock drift, which is less than a step of time.
            return divide_down(each.value - (by_.wall - by_.now.count()), time_step);
        case kind::run:
            return each.value == static_cast<std::int64_t>(by_.run) ? 1 : 0;
        case kind::stamp:
            return each.value == 0 ? never : stamps_[rank(each)];
        default:
            return is_ranked(each.what) ? static_cast<std::int64_t>(rank(each)) : each.value;
        }
    }

private:
    // By kind and client. The list is short, so it is not a map.
    using key = std::pair<kind, std::uint8_t>;

    void note(kind what, std::uint8_t client, std::int64_t value)
    {
        list(what, client).push_back(value);
    }

    std::vector<std::int64_t>& list(kind what, std::uint8_t client)
    {
        const key wanted{what, is_owned(what) ? client : std::uint8_t(0)};
        for (auto& [whose, values] : values_)
            if (whose == wanted)
                return values;
        return values_.emplace_back(wanted, std::vector<std::int64_t>()).second;
    }

    [[nodiscard]] std::size_t rank(const word& each) const
    {
        const key wanted{each.what, is_owned(each.what) ? each.client : std::uint8_t(0)};
        const auto found = std::ranges::find(values_, wanted, &std::pair<key, numbers>::first);
        const auto& values = found->second;
        return static_cast<std::size_t>(std::ranges::lower_bound(values, each.value) -
                                        values.begin());
    }

    [[nodiscard]] std::int64_t rest(std::int64_t value, std::int64_t part) const
    {
        if (value == never)
            return never;
        return std::max(divide_up(value - by_.now.count(), part), long_ago);
    }

    /// Measures stamps relative to the lock's clock. Gaps in the past are shortened to slightly more
    /// than the clock can be set back.
    void measure_stamps()
    {
        const std::int64_t far = by_.back + time_step / 2;
        const auto& values = list(kind::stamp, 0);
        const auto clock = std::ranges::find(values, by_.clock) - values.begin();
        stamps_.resize(values.size());
        for (auto i = static_cast<std::size_t>(clock); i < values.size(); ++i)
            stamps_[i] = values[i] - by_.clock;
        for (auto i = static_cast<std::size_t>(clock); i > 0; --i)
            stamps_[i - 1] = stamps_[i] - std::min(values[i] - values[i - 1], far);
    }

    using numbers = std::vector<std::int64_t>;

    measure by_;
    std::vector<std::pair<key, numbers>> values_;
    numbers stamps_;
};

struct translated
{
    kind what{};
    std::uint8_t client = 0;
    std::int64_t value = 0;
};

class hasher
{
public:
    explicit hasher(std::span<const std::uint8_t> names)
        : names_(names)
    {
    }

    void add(const std::vector<translated>& words)
    {
        for (const translated& each : words)
        {
            const auto head = static_cast<std::uint64_t>(each.what) * 16 +
                              (is_owned(each.what) ? names_[each.client] : 8);
            const auto value = static_cast<std::uint64_t>(each.value);
            low_ = mix(low_ * 0x9E3779B97F4A7C15U + head) + value;
            high_ = mix(high_ + value * 0xD6E8FEB86659FD93U) ^ (head * 0xA0761D6478BD642FU);
        }
        low_ = mix(low_ + words.size());
    }

    [[nodiscard]] fingerprint result() const { return {mix(high_ ^ low_), mix(low_)}; }

private:
    std::span<const std::uint8_t> names_;
    std::uint64_t low_ = 1;
    std::uint64_t high_ = 2;
};

}  // namespace

void portrait::id(const redis::detail::waiter_id& id)
{
    const std::size_t client = client_of(id.nonce);
    add(kind::client, client, 0);
    add(kind::incarnation, client, static_cast<std::int64_t>(id.incarnation));
    add(kind::attempt, client, static_cast<std::int64_t>(id.sequence));
}

void portrait::slot(const redis::detail::waiter_id& slot)
{
    add(kind::client, client_of(slot.nonce), 0);
    plain(slot.sequence);
}

void portrait::text(std::string_view text)
{
    plain(std::hash<std::string_view>()(text));
}

fingerprint take_fingerprint(const std::vector<word>& shared,
                             std::span<const std::vector<word>* const> parts, const measure& by,
                             std::span<const std::uint8_t> kinds)
{
    translator reader(by);
    reader.read(shared);
    for (const auto* part : parts)
        reader.read(*part);
    reader.prepare();
    const auto translate = [&](const std::vector<word>& words)
    {
        std::vector<translated> result;
        result.reserve(words.size());
        for (const word& each : words)
            result.push_back({each.what, each.client, reader.translate(each)});
        return result;
    };
    const auto common = translate(shared);
    std::vector<std::vector<translated>> own;
    for (const auto* part : parts)
        own.push_back(translate(*part));

    // names[c] is the number that client c gets. The smallest fingerprint of all numberings
    // is used.
    std::array<std::uint8_t, 8> names{};
    std::iota(names.begin(), names.end(), std::uint8_t(0));
    fingerprint least{std::numeric_limits<std::uint64_t>::max(), 0};
    do
    {
        const auto called = std::span(names).first(kinds.size());
        if (!std::ranges::equal(kinds, called, {}, {}, [&](auto name) { return kinds[name]; }))
            continue;
        hasher hash(names);
        hash.add(common);
        for (std::size_t name = 0; name < own.size(); ++name)
            hash.add(own[static_cast<std::size_t>(std::ranges::find(names, name) - names.begin())]);
        least = std::min(least, hash.result());
    } while (std::next_permutation(names.begin(),
                                   names.begin() + static_cast<std::ptrdiff_t>(own.size())));
    return least;
}

}  // namespace turnstile::test

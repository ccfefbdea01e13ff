// Copyright (c) 2026 The Turnstile authors
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)

// States that cannot be stored, or have such a member. refused_states.sh compiles this once for each of
// them, and checks the compiler's message.

#include <boost/describe/class.hpp>
#include <memory>
#include <optional>
#include <set>
#include <turnstile/redis/detail/described.hpp>
#include <vector>

struct described
{
    int member = 0;
};
BOOST_DESCRIBE_STRUCT(described, (), (member))

struct undescribed
{
    int value = 0;
};

struct maybe_nothing
{
    std::optional<int> value{};
};
BOOST_DESCRIBE_STRUCT(maybe_nothing, (), (value))

union either
{
    int number;
    float real;
};

enum plain
{
    one,
};

#if defined WITH_SAME_NAME
struct state : described
#elif defined WITH_UNDESCRIBED_BASE
struct state : undescribed
#else
struct state
#endif
{
#if defined WITH_POINTER
    int* member = nullptr;
#elif defined WITH_UNION
    either member{};
#elif defined WITH_ARRAY
    int member[3]{};
#elif defined WITH_CONST
    const int member = 0;
#elif defined WITH_LONG_DOUBLE
    long double member = 0;
#elif defined WITH_ENUMERATION
    plain member = one;
#elif defined WITH_TWO_OPTIONALS
    std::optional<std::optional<int>> member{};
#elif defined WITH_OPTIONAL_OF_OPTIONALS
    std::optional<maybe_nothing> member{};
#elif defined WITH_STRUCT
    undescribed member{};
#elif defined WITH_VECTOR_OF_STRUCTS
    std::vector<undescribed> member{};
#elif defined WITH_SET
    std::set<int> member{};
#elif defined WITH_UNIQUE_PTR
    std::unique_ptr<int> member{};
#else
    int member = 0;
#endif
#if defined WITHOUT_DEFAULT
    explicit state(int) {}
#endif
};

#if defined WITH_SAME_NAME
BOOST_DESCRIBE_STRUCT(state, (described), (member))
#elif defined WITH_UNDESCRIBED_BASE
BOOST_DESCRIBE_STRUCT(state, (undescribed), (member))
#elif !defined WITHOUT_DESCRIPTION
BOOST_DESCRIBE_STRUCT(state, (), (member))
#endif

turnstile::redis::detail::fields write(const state& from)
{
    return turnstile::redis::detail::to_fields(from);
}

state read(const turnstile::redis::detail::fields& from)
{
    return turnstile::redis::detail::from_fields<state>(from);
}

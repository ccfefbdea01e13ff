// Copyright (c) 2026 The Turnstile authors
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)

#ifndef TURNSTILE_DETAIL_STORED_CALLABLE_HPP
#define TURNSTILE_DETAIL_STORED_CALLABLE_HPP

#include <type_traits>
#include <utility>

// Bodies and predicates that an operation stores by value.

namespace turnstile::detail {

#if defined __GNUC__ && !defined __clang__ && __GNUC__ < 13
inline constexpr bool temporaries_are_destroyed_twice = true;
#else
inline constexpr bool temporaries_are_destroyed_twice = false;
#endif

/// The base of callables that the library creates outside of coroutines.
struct made_by_library
{
};

/// Whether the result of an initiating function is awaited by no coroutine: that of a callback, or a future.
template <class Result>
inline constexpr bool is_for_no_coroutine = std::is_void_v<Result> || requires {
    std::declval<Result&>().get();
    std::declval<Result&>().wait();
};

/// Calls @p start, which starts an operation that stores a callable. Rejects callables that g++ 12 would
/// miscompile. @p Callable is the type of a forwarding reference's parameter. It does not distinguish a
/// temporary from a moved named object, so both are rejected.
template <class Callable, class Start>
auto start_with(const Start& start)
{
    static_assert(!temporaries_are_destroyed_twice || std::is_lvalue_reference_v<Callable> ||
                      std::is_trivially_destructible_v<Callable> ||
                      std::is_base_of_v<made_by_library, Callable> ||
                      is_for_no_coroutine<decltype(start())>,
                  "g++ 12 destroys the captures of a temporary lambda in a co_await "
                  "expression twice. Capture by "
                  "reference, or name the lambda and pass its name, or std::ref(name) if it cannot "
                  "be copied.");
    return start();
}

}  // namespace turnstile::detail

#endif

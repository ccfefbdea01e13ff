// Copyright (c) 2026 The Turnstile authors
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)

#ifndef TURNSTILE_REDIS_DETAIL_STORABLE_HPP
#define TURNSTILE_REDIS_DETAIL_STORABLE_HPP

#include <array>
#include <bit>
#include <boost/describe/bases.hpp>
#include <boost/describe/enumerators.hpp>
#include <boost/describe/members.hpp>
#include <boost/describe/modifiers.hpp>
#include <boost/mp11/algorithm.hpp>
#include <boost/mp11/list.hpp>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>

// Which types can be stored in Redis, and what their descriptions by Boost.Describe say.

namespace turnstile::redis::detail {

// --- types that can be stored ---------------------------------------------------------------

template <class T>
concept boolean = std::same_as<T, bool>;

template <class T>
concept whole_number = std::integral<T> && !boolean<T> && sizeof(T) <= sizeof(std::int64_t);

/// Excludes long double, because its format depends on the machine.
template <class T>
concept real_number = std::same_as<T, float> || std::same_as<T, double>;

template <class E>
inline constexpr bool has_enumerators = boost::describe::has_describe_enumerators<E>::value;

/// Whether each number of the underlying type is a value of the enumeration. If not, its enumerators have to
/// be described.
template <class E>
concept takes_any_number = requires { E{std::underlying_type_t<E>{}}; };

template <class T>
concept enumeration = std::is_enum_v<T> && (takes_any_number<T> || has_enumerators<T>);

template <class T>
concept scalar = boolean<T> || whole_number<T> || real_number<T> || enumeration<T>;

/// Whether all base classes of a class are described, recursively.
template <class T>
consteval bool has_described_bases();

/// A class with a description.
template <class T>
concept structure = std::is_class_v<T> && boost::describe::has_describe_members<T>::value &&
                    boost::describe::has_describe_bases<T>::value && has_described_bases<T>();

template <class T>
inline constexpr bool is_optional = false;

template <class T>
inline constexpr bool is_optional<std::optional<T>> = true;

/// An optional must not contain an optional directly, because the text could not show which of them is empty.
template <class T>
concept optional_value = is_optional<T> && !is_optional<typename T::value_type>;

template <class T>
inline constexpr bool is_array = false;

template <class T, std::size_t n>
inline constexpr bool is_array<std::array<T, n>> = true;

template <class T>
concept array = is_array<T>;

/// A container such as std::vector. Strings are excluded.
template <class T>
concept sequence = !structure<T> && !requires { typename T::traits_type; } &&
                   requires(T& t, const T& c, typename T::value_type element) {
                       t.clear();
                       t.push_back(std::move(element));
                       c.begin() != c.end();
                   };

/// A container such as std::map with strings as keys. Its order gives equal maps equal texts.
template <class T>
concept string_map = !structure<T> && requires { typename T::key_compare; } &&
                     std::same_as<typename T::key_type, std::string> &&
                     requires(T& t, typename T::mapped_type value) {
                         t.clear();
                         {
                             t.emplace(std::string(), std::move(value)).second
                         } -> std::convertible_to<bool>;
                     };

template <class T>
concept storable = scalar<T> || std::same_as<T, std::string> || structure<T> || optional_value<T> ||
                   array<T> || sequence<T> || string_map<T>;

/// Fails with an explanation if a type cannot be stored.
template <class T>
consteval void expect_storable()
{
    static_assert(!std::is_pointer_v<T> && !std::is_null_pointer_v<T> && !std::is_reference_v<T>,
                  "A pointer means nothing to another process: store what it points to, or a key.");
    static_assert(!std::is_union_v<T>,
                  "The member of a union in use is unknown: take a struct of optionals.");
    static_assert(!std::is_array_v<T>, "Take a std::array instead of a built-in array.");
    static_assert(!std::is_const_v<T>, "A const member could not be read: take away the const.");
    static_assert(!std::same_as<T, long double>,
                  "A long double differs from machine to machine: take a double.");
    static_assert(
        !std::is_enum_v<T> || enumeration<T>,
        "Describe the enumeration with BOOST_DESCRIBE_ENUM, or give it an underlying type.");
    static_assert(!is_optional<T> || optional_value<T>, "Take one optional, not one in another.");
    static_assert(
        storable<T>,
        "The type cannot be stored. Describe a struct, and each of its base classes, with "
        "BOOST_DESCRIBE_STRUCT or BOOST_DESCRIBE_CLASS. Otherwise take bool, an integer, "
        "float, double, an enumeration, std::string, std::optional, std::vector, std::array, "
        "std::deque, std::list, or std::map with std::string as its key.");
}

// --- descriptions by Boost.Describe ---------------------------------------------------------

/// All data members, also hidden ones.
template <class T>
using members_of = boost::describe::describe_members<T, boost::describe::mod_any_access |
                                                            boost::describe::mod_inherited |
                                                            boost::describe::mod_hidden>;

template <class T>
inline constexpr std::size_t member_count = boost::mp11::mp_size<members_of<T>>::value;

template <class T>
consteval bool has_described_bases()
{
    using bases = boost::describe::describe_bases<T, boost::describe::mod_any_access>;
    return []<template <class...> class List, class... Base>(List<Base...>)
    { return (structure<typename Base::type> && ...); }(bases());
}

/// Whether all members have different names. Otherwise one of them would be lost.
template <class T>
consteval bool has_distinct_names()
{
    return []<template <class...> class List, class... Member>(List<Member...>)
    {
        const std::array<std::string_view, sizeof...(Member)> names{Member::name...};
        for (std::size_t i = 0; i < names.size(); ++i)
            for (std::size_t j = 0; j < i; ++j)
                if (names[i] == names[j])
                    return false;
        return true;
    }(members_of<T>());
}

/// Calls a function with the description of each member.
template <class T, class Function>
void for_each_member(Function function)
{
    static_assert(
        has_distinct_names<T>(),
        "Two members have the same name, perhaps one in a base class: rename one of them.");
    boost::mp11::mp_for_each<members_of<T>>(function);
}

/// Whether each value of this type has at least one field.
template <class T>
consteval bool always_has_field()
{
    if constexpr (structure<T>)
        return []<template <class...> class List, class... Member>(List<Member...>)
        {
            return (always_has_field<
                        std::remove_cvref_t<decltype(std::declval<T&>().*Member::pointer)>>() ||
                    ...);
        }(members_of<T>());
    else
        return !is_optional<T>;
}

/// A named value of an enumeration, widened to 64 bits.
struct enumerator
{
    std::string_view name;
    std::uint64_t number = 0;
};

template <class E>
consteval auto make_enumerators()
{
    if constexpr (has_enumerators<E>)
        return []<template <class...> class List, class... Each>(List<Each...>)
        {
            return std::array<enumerator, sizeof...(Each)>{
                enumerator{Each::name, static_cast<std::uint64_t>(Each::value)}...};
        }(boost::describe::describe_enumerators<E>());
    else
        return std::array<enumerator, 0>();
}

template <class E>
inline constexpr auto enumerators_of = make_enumerators<E>();

/// The numbers from least to most.
template <class Number>
struct number_range
{
    Number least = std::numeric_limits<Number>::min();
    Number most = std::numeric_limits<Number>::max();
};

/// The valid numbers of an enumeration: without a fixed underlying type, those that fit into the bits of its
/// enumerators. A conversion from another number would be undefined.
template <class E>
consteval auto numbers_of()
{
    using number = std::underlying_type_t<E>;
    number_range<number> result;
    if constexpr (!takes_any_number<E>)
    {
        std::uint64_t bits = 0;
        bool has_negative = false;
        for (const enumerator& each : enumerators_of<E>)
        {
            const bool negative = std::is_signed_v<number> && each.number >> 63 != 0;
            bits |= negative ? ~each.number : each.number;
            has_negative = has_negative || negative;
        }
        const std::uint64_t mask = bits == 0 ? 0 : ~std::uint64_t{0} >> std::countl_zero(bits);
        result.most = static_cast<number>(mask);
        result.least = has_negative ? static_cast<number>(~mask) : number{0};
    }
    return result;
}

}  // namespace turnstile::redis::detail

#endif

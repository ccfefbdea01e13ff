// Copyright (c) 2026 The Turnstile authors
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)

#ifndef TURNSTILE_REDIS_DETAIL_DESCRIBED_HPP
#define TURNSTILE_REDIS_DETAIL_DESCRIBED_HPP

#include <array>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <turnstile/detail/name_of_member.hpp>
#include <turnstile/redis/detail/json.hpp>
#include <turnstile/redis/detail/storable.hpp>
#include <type_traits>
#include <utility>

// The mapping between a struct that Boost.Describe knows and a Redis hash.
//
//   member                         field    text
//   bool                           a        true or false
//   integers, characters           a        a whole number
//   float, double                  a        the shortest text that gives the same number; inf, -inf, nan
//   enumerations                   a        the name, if it is described; else the number
//   std::string                    a        its bytes, unchanged
//   a struct                       a.b      one field per member
//   std::optional                  the same as its value; if it is empty, no field
//   sequences, std::array,         a        JSON text: structs and maps are objects, an empty optional
//   std::map of strings to ...              is null or omitted, inf and nan are strings, strings are UTF-8
//
// Members of base classes are included, whatever their access. Unknown fields are ignored. A member whose
// field is missing has its value in `T{}`, so that later versions of a program can add members. A missing
// optional is empty, because an empty optional has no other representation.
//
// An optional struct in fields needs a member that always has a field, to distinguish it from an empty
// optional. In JSON text, every struct is distinct from it. No text depends on the locale.

namespace turnstile::redis::detail {

/// The fields of a Redis hash.
using fields = std::map<std::string, std::string>;

// --- scalars and their texts ----------------------------------------------------------------

/// Whole numbers are read and written as one of two types.
template <class Number>
using widest = std::conditional_t<std::is_signed_v<Number>, std::int64_t, std::uint64_t>;

// The library defines these templates for the widest types, float and double.

template <class Number>
[[nodiscard]] std::string text_of_number(Number value);

/// Parses a whole number. Refuses text that is not a number in the range. The error also lists the names of
/// the enumerators, if there are any.
template <class Number>
[[nodiscard]] Number read_number(const excerpt& from, number_range<Number> range,
                                 std::span<const enumerator> names = {});

/// Parses a real number.
template <class Number>
void read_number(const excerpt& from, Number& to);

[[nodiscard]] bool read_boolean(const excerpt& from);

template <scalar T>
std::string text_of(T value)
{
    if constexpr (boolean<T>)
        return value ? "true" : "false";
    else if constexpr (whole_number<T>)
        return text_of_number(static_cast<widest<T>>(value));
    else if constexpr (real_number<T>)
        return text_of_number(value);
    else
    {
        // NOLINTNEXTLINE(bugprone-non-zero-enum-to-bool-conversion): an enumeration may have bool below it.
        const auto number = static_cast<std::underlying_type_t<T>>(value);
        for (const enumerator& each : enumerators_of<T>)
            if (each.number == static_cast<std::uint64_t>(number))
                return std::string(each.name);
        return text_of_number(static_cast<widest<decltype(number)>>(number));
    }
}

template <scalar T>
void read_scalar(const excerpt& from, T& to)
{
    if constexpr (boolean<T>)
        to = read_boolean(from);
    else if constexpr (whole_number<T>)
    {
        constexpr number_range<T> range;
        to = static_cast<T>(read_number(from, number_range<widest<T>>{range.least, range.most}));
    }
    else if constexpr (real_number<T>)
        read_number(from, to);
    else
    {
        using number = std::underlying_type_t<T>;
        constexpr auto range = numbers_of<T>();
        const auto& names = enumerators_of<T>;
        for (const enumerator& each : names)
            if (each.name == from.text)
            {
                to = static_cast<T>(static_cast<number>(each.number));
                return;
            }
        to = static_cast<T>(static_cast<number>(
            read_number(from, number_range<widest<number>>{range.least, range.most}, names)));
    }
}

// --- values in JSON text --------------------------------------------------------------------

inline constexpr const char* same_key = "is the key of two values of an object in JSON text";

/// Calls a function with the key and the value of each member that is present in the JSON object.
template <structure T, class Function>
void for_each_element(const T& value, Function function)
{
    const auto call = [&]<class Member>(Member)
    {
        const auto& member = value.*Member::pointer;
        if constexpr (is_optional<std::remove_cvref_t<decltype(member)>>)
            if (!member)
                return;
        function(Member::name, member);
    };
    for_each_member<T>(call);
}

template <string_map T, class Function>
void for_each_element(const T& value, Function function)
{
    for (const auto& [key, element] : value)
        function(key, element);
}

/// Appends a value. Throws if a string is not UTF-8, and then names the field.
template <class T>
void write_json(std::string_view field, std::string& to, const T& value)
{
    expect_storable<T>();
    if constexpr (scalar<T>)
        to += json_scalar({field, detail::text_of(value)});
    else if constexpr (std::same_as<T, std::string>)
        to += json_string({field, value});
    else if constexpr (is_optional<T>)
    {
        if (value)
            detail::write_json(field, to, *value);
        else
            to += "null";
    }
    else if constexpr (structure<T> || string_map<T>)
    {
        const auto write_element = [&](std::string_view key, const auto& element)
        {
            begin_element(to);
            to += json_string({field, key});
            to += ':';
            detail::write_json(field, to, element);
        };
        to += '{';
        for_each_element(value, write_element);
        to += '}';
    }
    else
    {
        to += '[';
        for (const typename T::value_type& element : value)
        {
            begin_element(to);
            detail::write_json(field, to, element);
        }
        to += ']';
    }
}

template <class T>
void read_json(std::string_view field, const json_value& from, T& to);

/// Reads an object into a struct.
template <structure T>
void read_json_elements(std::string_view field, const json_value& from, T& to)
{
    if (from.kind != json_kind::object)
        refuse(field, from, "is not an object in JSON text");
    const auto reset_optional = [&]<class Member>(Member)
    {
        if constexpr (is_optional<std::remove_cvref_t<decltype(to.*Member::pointer)>>)
            (to.*Member::pointer).reset();
    };
    for_each_member<T>(reset_optional);
    std::array<bool, member_count<T>> seen{};
    for (const json_value& element : from.elements)
    {
        std::size_t index = 0;
        const auto read_member = [&]<class Member>(Member)
        {
            if (element.key == Member::name)
            {
                if (std::exchange(seen[index], true))
                    refuse({field, element.key}, same_key);
                detail::read_json(field, element, to.*Member::pointer);
            }
            ++index;
        };
        for_each_member<T>(read_member);
    }
}

/// Reads an object into a map.
template <string_map T>
void read_json_elements(std::string_view field, const json_value& from, T& to)
{
    if (from.kind != json_kind::object)
        refuse(field, from, "is not an object in JSON text");
    to.clear();
    for (const json_value& each : from.elements)
    {
        typename T::mapped_type element{};
        detail::read_json(field, each, element);
        if (!to.emplace(each.key, std::move(element)).second)
            refuse({field, each.key}, same_key);
    }
}

/// Reads an array.
template <class T>
void read_json_elements(std::string_view field, const json_value& from, T& to)
{
    if (from.kind != json_kind::array)
        refuse(field, from, "is not an array in JSON text");
    if constexpr (array<T>)
    {
        if (from.elements.size() != to.size())
            refuse(field, from,
                   "is not an array of " + std::to_string(to.size()) + " elements in JSON text");
        for (std::size_t i = 0; i != to.size(); ++i)
            detail::read_json(field, from.elements[i], to[i]);
    }
    else
    {
        to.clear();
        for (const json_value& each : from.elements)
        {
            typename T::value_type element{};
            detail::read_json(field, each, element);
            to.push_back(std::move(element));
        }
    }
}

template <class T>
void read_json(std::string_view field, const json_value& from, T& to)
{
    expect_storable<T>();
    if constexpr (scalar<T>)
    {
        constexpr bool or_string = real_number<T> || enumeration<T>;
        if (from.kind != json_kind::bare && !(or_string && from.kind == json_kind::string))
            refuse(field, from,
                   or_string ? "is not a number, true, false or a string in JSON text"
                             : "is not a number, true or false in JSON text");
        read_scalar({field, from.text}, to);
    }
    else if constexpr (std::same_as<T, std::string>)
    {
        if (from.kind != json_kind::string)
            refuse(field, from, "is not a string in JSON text");
        to = from.text;
    }
    else if constexpr (is_optional<T>)
    {
        to.reset();
        if (from.kind != json_kind::null)
            detail::read_json(field, from, to.emplace());
    }
    else
        read_json_elements(field, from, to);
}

// --- values in fields -----------------------------------------------------------------------

/// The name of a field: that of a member, after those of the structs that it lies in.
[[nodiscard]] std::string field_name(const std::string& outer, std::string_view member);

template <class T>
consteval void expect_storable_in_fields()
{
    expect_storable<T>();
    if constexpr (is_optional<T>)
        static_assert(
            !structure<typename T::value_type> || always_has_field<typename T::value_type>(),
            "An optional struct of optionals alone looks like an empty optional: give it a "
            "member that is no optional.");
}

template <class T>
void write_fields(fields& to, const std::string& name, const T& value)
{
    expect_storable_in_fields<T>();
    if constexpr (structure<T>)
    {
        const auto write_member = [&]<class Member>(Member)
        { write_fields(to, field_name(name, Member::name), value.*Member::pointer); };
        for_each_member<T>(write_member);
    }
    else if constexpr (is_optional<T>)
    {
        if (value)
            write_fields(to, name, *value);
    }
    else if constexpr (scalar<T>)
        to.emplace(name, detail::text_of(value));
    else if constexpr (std::same_as<T, std::string>)
        to.emplace(name, value);
    else
    {
        std::string json;
        detail::write_json(name, json, value);
        // Also checks the nesting: a value that could not be read again is not written.
        (void)parse_json({name, json});
        to.emplace(name, std::move(json));
    }
}

/// Reads a value, and returns whether it had a field.
template <class T>
bool read_fields(const fields& from, const std::string& name, T& to)
{
    expect_storable_in_fields<T>();
    if constexpr (structure<T>)
    {
        bool found = false;
        const auto read_member = [&]<class Member>(Member)
        {
            if (read_fields(from, field_name(name, Member::name), to.*Member::pointer))
                found = true;
        };
        for_each_member<T>(read_member);
        return found;
    }
    else if constexpr (is_optional<T>)
    {
        if (!read_fields(from, name, to.emplace()))
            to.reset();
        return to.has_value();
    }
    else
    {
        const auto field = from.find(name);
        if (field == from.end())
            return false;
        const std::string& text = field->second;
        if constexpr (scalar<T>)
            read_scalar({name, text}, to);
        else if constexpr (std::same_as<T, std::string>)
            to = text;
        else
            detail::read_json(name, parse_json({name, text}), to);
        return true;
    }
}

/// Fails with an explanation if a type cannot be the state of a monitor.
template <class T>
consteval void expect_state()
{
    expect_storable<T>();
    static_assert(structure<T>,
                  "The state of a monitor over Redis is a struct that is described with "
                  "BOOST_DESCRIBE_STRUCT or BOOST_DESCRIBE_CLASS.");
    static_assert(std::default_initializable<T>, "The state needs a default constructor, for the "
                                                 "members that have no field yet.");
}

/**
 * @brief Formats a value as the fields of a Redis hash.
 *
 * @throws redis_error with `errc::bad_state` if a string in JSON text is not UTF-8, or values are nested too
 *         deeply; what() names the field.
 */
template <class T>
[[nodiscard]] fields to_fields(const T& value)
{
    expect_state<T>();
    fields result;
    write_fields(result, {}, value);
    return result;
}

/**
 * @brief Parses a value from the fields of a Redis hash.
 *
 * @throws redis_error with `errc::bad_state` if a field cannot be parsed as its member's type; what() names
 *         the field, the text and the rule, such as "field 'readers': '12x' is not a whole number between
 *         -2147483648 and 2147483647".
 */
template <class T>
[[nodiscard]] T from_fields(const fields& from)
{
    expect_state<T>();
    T result{};
    read_fields(from, {}, result);
    return result;
}

// --- one number of many ---------------------------------------------------------------------

/// Throws because a member has no field of its own.
[[noreturn]] void refuse_member();

/// The field of a member. Refuses a member that is not described.
template <structure T, class Member>
[[nodiscard]] std::string field_of_member(Member T::* member)
{
    const std::string_view name = turnstile::detail::name_of_member<T>(member);
    if (name.empty())
        refuse_member();
    return std::string(name);
}

/// Adds to the number that is stored in a field.
template <structure T>
void add_to_member(T& value, std::string_view name, std::int64_t amount)
{
    const auto add = [&]<class Description>(Description)
    {
        using number = std::remove_cvref_t<decltype(value.*Description::pointer)>;
        if constexpr (whole_number<number>)
            if (name == Description::name)
                // Unsigned, because signed overflow is undefined.
                value.*Description::pointer =
                    static_cast<number>(static_cast<std::uint64_t>(value.*Description::pointer) +
                                        static_cast<std::uint64_t>(amount));
    };
    for_each_member<T>(add);
}

}  // namespace turnstile::redis::detail

#endif

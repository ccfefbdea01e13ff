// Copyright (c) 2026 The Turnstile authors
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)

#ifndef TURNSTILE_REDIS_DETAIL_PROPOSE_HPP
#define TURNSTILE_REDIS_DETAIL_PROPOSE_HPP

#include <concepts>
#include <limits>
#include <optional>
#include <string>
#include <string_view>
#include <tuple>
#include <turnstile/detail/transaction_body.hpp>
#include <turnstile/redis/detail/described.hpp>
#include <turnstile/redis/detail/proposal.hpp>
#include <turnstile/transaction.hpp>
#include <type_traits>
#include <utility>

// A transaction in the words of the server.
//
// The server has only texts, and numbers of 53 bits. What it would have to guess it is not asked for: then there is
// nothing to propose, and the transaction becomes a section. What depends on the texts that lie there (a number of
// another form, or of more digits, or out of its range) it leaves to the client by itself.
//
//   member                          the server can
//   integers                        compare, add, set
//   bool, std::string               tell whether it equals, set
//   enumerations                    tell that it equals, set; what is another text may be the same value
//   optionals of these              tell that it equals and whether there is one, set
//   float, double                   set
//   what is written as JSON text    set
//   structs, and optional ones      nothing: they are several fields

namespace turnstile::redis::detail {

/// A member of a state, as the server knows it.
template <class T, class M>
struct known_member
{
    explicit known_member(M T::* which)
        : name(field_of_member<T>(which))
        , initial(T{}.*which)
    {
    }

    std::string name;
    /// What it is as long as it has no field.
    M initial;
};

/// Whether all of a value lies in one field, if it has one.
template <class M>
[[nodiscard]] consteval bool has_one_field()
{
    if constexpr (is_optional<M>)
        return has_one_field<typename M::value_type>();
    else
        return !structure<M>;
}

/// Whether the server can compare values, at least if their texts are the same.
template <class M>
[[nodiscard]] consteval bool has_equal_texts()
{
    if constexpr (is_optional<M>)
        return has_equal_texts<typename M::value_type>();
    else
        return boolean<M> || whole_number<M> || enumeration<M> || std::same_as<M, std::string>;
}

/// The text of a value, with an equals sign before it; empty if it has no field.
template <class M>
[[nodiscard]] std::string text_in_field(const M& value)
{
    fields written;
    write_fields(written, {}, value);
    return written.empty() ? std::string() : '=' + written.begin()->second;
}

/// Puts a step down. Whether that is possible.
template <class T, class M, class Compare>
[[nodiscard]] bool put_down(proposal& to, const turnstile::detail::requirement<T, M, Compare>& what)
{
    const known_member<T, M> member(what.member);
    const std::string_view signs = turnstile::detail::signs_of<Compare>;
    if constexpr (has_equal_texts<M>())
    {
        if (!whole_number<M> && signs != "=" && signs != "<>")
            return false;
        proposal::step step{std::string(signs), member.name, text_in_field(what.value), {}, {}, {}};
        // A missing optional is empty, whatever its type says.
        if constexpr (!is_optional<M>)
            step.otherwise = text_in_field(member.initial);
        if constexpr (whole_number<M>)
        {
            step.least = text_of(std::numeric_limits<M>::min());
            step.most = text_of(std::numeric_limits<M>::max());
        }
        else if constexpr (boolean<M>)
        {
            step.least = text_in_field(false);
            step.most = text_in_field(true);
        }
        else if constexpr (enumeration<M>)
            step.least = step.most = step.value;
        else if constexpr (is_optional<M>)
            // That there is none differs from it.
            step.least = step.value;
        to.steps.push_back(std::move(step));
        return true;
    }
    else
        return false;
}

/// @copydoc put_down
template <class T, class M>
[[nodiscard]] bool put_down(proposal& to, const turnstile::detail::addition<T, M>& what)
{
    const known_member<T, M> member(what.member);
    to.steps.push_back({"add", member.name, '=' + text_of(what.amount),
                        text_in_field(member.initial), text_of(std::numeric_limits<M>::min()),
                        text_of(std::numeric_limits<M>::max())});
    return true;
}

/// @copydoc put_down
template <class T, class M>
[[nodiscard]] bool put_down(proposal& to, const turnstile::detail::assignment<T, M>& what)
{
    const known_member<T, M> member(what.member);
    if constexpr (has_one_field<M>())
        to.steps.push_back({"set", member.name, text_in_field(what.value), {}, {}, {}});
    return has_one_field<M>();
}

/// The steps that change a state, in the order in which they do.
template <class Step>
inline constexpr int turn_of = 0;

template <class T, class M>
inline constexpr int turn_of<turnstile::detail::addition<T, M>> = 1;

template <class T, class M>
inline constexpr int turn_of<turnstile::detail::assignment<T, M>> = 2;

/**
 * What is proposed to the server; nothing if it could not do it. Put(proposal, step) puts down what else a step may
 * be: a notification, or the condition that it waits on.
 *
 * @throws redis_error with `errc::bad_state` if a member is not described, or a value cannot be written.
 */
template <class Transaction, class Put>
[[nodiscard]] std::optional<proposal> propose(const Transaction& what, Put put)
{
    std::optional<proposal> result(std::in_place);
    bool possible = true;
    const auto put_step = [&]<class Step>(const Step& step)
    {
        if constexpr (requires { put_down(*result, step); })
            possible = put_down(*result, step) && possible;
        else
            possible = put(*result, step) && possible;
    };
    const auto put_turn = [&]<int turn>(std::integral_constant<int, turn>)
    {
        const auto put_if = [&]<class Step>(const Step& step)
        {
            if constexpr (turn_of<Step> == turn)
                put_step(step);
        };
        std::apply([&](const auto&... each) { (put_if(each), ...); },
                   turnstile::detail::transaction_access::steps(what));
    };
    put_turn(std::integral_constant<int, 0>());
    put_turn(std::integral_constant<int, 1>());
    put_turn(std::integral_constant<int, 2>());
    if (!possible)
        result.reset();
    return result;
}

}  // namespace turnstile::redis::detail

#endif

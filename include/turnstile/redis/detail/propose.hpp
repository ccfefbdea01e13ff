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

// Converts a transaction to the format of the server.
//
// The server has only texts, and numbers of 53 bits. If a step would need more, there is no proposal, and the
// transaction becomes a section. If a stored text does not allow a decision (a number in another format, with
// more digits or out of range), the server leaves the transaction to the client.
//
//   member                          the server can
//   integers                        compare, add, set
//   bool, std::string               test for equality, set
//   enumerations                    confirm equality (another text may be the same value), set
//   optionals of these              confirm equality, test for absence, set
//   float, double                   set
//   types stored as JSON text       set
//   structs, and optional structs   nothing: they have several fields

namespace turnstile::redis::detail {

/// A member of a state and its field.
template <class T, class M>
struct known_member
{
    explicit known_member(M T::* which)
        : name(field_of_member<T>(which))
        , initial(T{}.*which)
    {
    }

    std::string name;
    /// The value of the member while the field is missing.
    M initial;
};

/// Whether the whole value is stored in one field, or in none if it is absent.
template <class M>
[[nodiscard]] consteval bool has_one_field()
{
    if constexpr (is_optional<M>)
        return has_one_field<typename M::value_type>();
    else
        return !structure<M>;
}

/// Whether equal texts mean equal values, so that the server can compare them.
template <class M>
[[nodiscard]] consteval bool has_equal_texts()
{
    if constexpr (is_optional<M>)
        return has_equal_texts<typename M::value_type>();
    else
        return boolean<M> || whole_number<M> || enumeration<M> || std::same_as<M, std::string>;
}

/// `=` and the text of a value; empty if it has no field. An error names the field.
template <class M>
[[nodiscard]] std::string text_in_field(const std::string& name, const M& value)
{
    fields written;
    write_fields(written, name, value);
    return written.empty() ? std::string() : '=' + written.begin()->second;
}

/// Adds a step to a proposal. Returns false if the server cannot execute the step.
template <class T, class M, class Compare>
[[nodiscard]] bool put_down(proposal& to, const turnstile::detail::requirement<T, M, Compare>& what)
{
    const known_member<T, M> member(what.member);
    const std::string_view signs = turnstile::detail::signs_of<Compare>;
    if constexpr (has_equal_texts<M>())
    {
        if (!whole_number<M> && signs != "=" && signs != "<>")
            return false;
        proposal::step step{
            std::string(signs), member.name, text_in_field(member.name, what.value), {}, {}, {}};
        // The default of a missing optional is empty, whatever value `T{}` gives it.
        if constexpr (!is_optional<M>)
            step.otherwise = text_in_field(member.name, member.initial);
        if constexpr (whole_number<M>)
        {
            step.least = text_of(std::numeric_limits<M>::min());
            step.most = text_of(std::numeric_limits<M>::max());
        }
        else if constexpr (boolean<M>)
        {
            step.least = text_in_field(member.name, false);
            step.most = text_in_field(member.name, true);
        }
        else if constexpr (enumeration<M>)
            step.least = step.most = step.value;
        else if constexpr (is_optional<M>)
            // Absence certainly differs from the value.
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
    to.steps.push_back(
        {"add", member.name, '=' + text_of(what.amount), text_in_field(member.name, member.initial),
         text_of(std::numeric_limits<M>::min()), text_of(std::numeric_limits<M>::max())});
    return true;
}

/// @copydoc put_down
template <class T, class M>
[[nodiscard]] bool put_down(proposal& to, const turnstile::detail::assignment<T, M>& what)
{
    const known_member<T, M> member(what.member);
    if constexpr (has_one_field<M>())
        to.steps.push_back(
            {"set", member.name, text_in_field(member.name, what.value), {}, {}, {}});
    return has_one_field<M>();
}

/// The execution order of the steps that change a state.
template <class Step>
inline constexpr int turn_of = 0;

template <class T, class M>
inline constexpr int turn_of<turnstile::detail::addition<T, M>> = 1;

template <class T, class M>
inline constexpr int turn_of<turnstile::detail::assignment<T, M>> = 2;

/**
 * Converts a transaction to a proposal; none if the server cannot execute it. Put(proposal, step) adds the
 * other steps: a notification, or the condition to wait on.
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

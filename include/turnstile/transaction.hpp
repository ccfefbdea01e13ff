// Copyright (c) 2026 The Turnstile authors
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)

#ifndef TURNSTILE_TRANSACTION_HPP
#define TURNSTILE_TRANSACTION_HPP

#include <concepts>
#include <cstdint>
#include <functional>
#include <string_view>
#include <tuple>
#include <type_traits>
#include <utility>

namespace turnstile {

namespace detail {

/// The results of a three-way comparison for which a standard comparison is true; empty for other types.
template <class Compare>
inline constexpr std::string_view signs_of{};

template <>
inline constexpr std::string_view signs_of<std::equal_to<>>{"="};
template <>
inline constexpr std::string_view signs_of<std::not_equal_to<>>{"<>"};
template <>
inline constexpr std::string_view signs_of<std::less<>>{"<"};
template <>
inline constexpr std::string_view signs_of<std::less_equal<>>{"<="};
template <>
inline constexpr std::string_view signs_of<std::greater<>>{">"};
template <>
inline constexpr std::string_view signs_of<std::greater_equal<>>{">="};

/// A comparison of the standard library for values of a type.
template <class Compare, class M>
concept comparison_of = !signs_of<Compare>.empty() && requires(const M& m, const Compare& compare) {
    { compare(m, m) } -> std::convertible_to<bool>;
};

/// An integer type to which a transaction can add.
template <class M>
concept countable = std::integral<M> && !std::same_as<M, bool> && sizeof(M) <= sizeof(std::int64_t);

/// A step of a transaction.
template <class T, class M, class Compare>
struct requirement
{
    using compare_type = Compare;

    M T::* member;
    M value;
};

/// @copydoc requirement
template <class T, class M>
struct addition
{
    M T::* member;
    std::int64_t amount;
};

/// @copydoc requirement
template <class T, class M>
struct assignment
{
    M T::* member;
    M value;
};

/// @copydoc requirement
template <class Condition>
struct wait_for_it
{
    Condition* condition;
};

/// @copydoc requirement
template <class Condition>
struct notification
{
    Condition* condition;
    bool all;
};

template <class Step>
inline constexpr bool is_wait = false;

template <class Condition>
inline constexpr bool is_wait<wait_for_it<Condition>> = true;

/// Access to the steps of a transaction, for monitors.
struct transaction_access
{
    template <class Transaction>
    [[nodiscard]] static auto& steps(Transaction& whose) noexcept
    {
        return whose.steps_;
    }
};

}  // namespace detail

/**
 * @brief Requirements, changes and notifications that a monitor executes in one step, without a
 * body.
 *
 * @code
 * struct room { int readers = 0; int writers = 0; };
 *
 * const auto enter = turnstile::transaction<room>()
 *                        .require(&room::writers, std::equal_to(), 0)
 *                        .wait_on(ok_to_read)
 *                        .add(&room::readers, 1);
 * const auto leave = turnstile::transaction<room>().add(&room::readers, -1).notify_one(ok_to_write);
 *
 * co_await monitor.async_transact(enter);
 * @endcode
 *
 * A transaction is executed completely or not at all. If all requirements hold, first all additions
 * are performed, then all assignments, then all notifications, regardless of the order in which
 * they were stated. It is a plain value, which can be executed any number of times, also by several
 * monitors at once.
 *
 * Prefer a transaction to a body if it can express the change. Locally it saves a coroutine if it
 * does not wait. With @ref redis::monitor it takes one round trip instead of two if the lock is free.
 *
 * @par Lifetime
 * A transaction refers to its conditions, which must exist until its last operation has completed.
 *
 * @tparam T     the type of the state.
 * @tparam Steps the steps so far.
 *
 * @par Thread safety
 * Distinct objects: Safe. Shared objects: Safe, since a transaction is immutable.
 */
template <class T, class... Steps>
class transaction
{
public:
    /// The type of the state.
    using value_type = T;

    /// Constructs a transaction without steps.
    constexpr transaction() noexcept
        requires(sizeof...(Steps) == 0)
    = default;

    /**
     * @brief Returns a copy with a further requirement: a comparison of a member of the state with
     * a value.
     *
     * @param member  for example `&room::writers`.
     * @param compare `std::equal_to()`, `not_equal_to`, `less`, `less_equal`, `greater` or `greater_equal`, whose
     *                first argument is the member.
     * @param value   the value with which the member is compared.
     */
    template <class M, class Base, class Compare>
        requires std::derived_from<T, Base> && detail::comparison_of<Compare, M>
    [[nodiscard]] auto require(M Base::* member, [[maybe_unused]] Compare compare,
                               std::type_identity_t<M> value) const
    {
        return with(detail::requirement<T, M, Compare>{member, std::move(value)});
    }

    /**
     * @brief Returns a copy that waits for a condition of the monitor while a requirement does not
     * hold.
     *
     * There can be only one such condition. Without it, the transaction is not executed if a
     * requirement does not hold.
     */
    template <class Condition>
    [[nodiscard]] auto wait_on(Condition& condition) const
    {
        static_assert(!(detail::is_wait<Steps> || ...), "A transaction waits on one condition.");
        return with(detail::wait_for_it<Condition>{&condition});
    }

    /**
     * @brief Returns a copy that also adds an amount to a member.
     *
     * If the sum is not a value of the member's type, the operation fails, and nothing is changed.
     *
     * @param amount the amount to add; may be negative.
     */
    template <detail::countable M, class Base>
        requires std::derived_from<T, Base>
    [[nodiscard]] auto add(M Base::* member, std::int64_t amount) const
    {
        return with(detail::addition<T, M>{member, amount});
    }

    /// Returns a copy that also sets a member to a value. The move assignment of the member must not
    /// throw, so that a transaction is not executed partly.
    template <class M, class Base>
        requires std::derived_from<T, Base> && std::is_nothrow_move_assignable_v<M>
    [[nodiscard]] auto set(M Base::* member, std::type_identity_t<M> value) const
    {
        return with(detail::assignment<T, M>{member, std::move(value)});
    }

    /// Returns a copy that also notifies the first waiter of a condition.
    template <class Condition>
    [[nodiscard]] auto notify_one(Condition& condition) const
    {
        return with(detail::notification<Condition>{&condition, false});
    }

    /// Returns a copy that also notifies all waiters of a condition.
    template <class Condition>
    [[nodiscard]] auto notify_all(Condition& condition) const
    {
        return with(detail::notification<Condition>{&condition, true});
    }

private:
    template <class, class...>
    friend class transaction;
    friend struct detail::transaction_access;

    explicit transaction(std::tuple<Steps...> steps)
        : steps_(std::move(steps))
    {
    }

    template <class Step>
    [[nodiscard]] auto with(Step step) const
    {
        return transaction<T, Steps..., Step>(
            std::tuple_cat(steps_, std::tuple<Step>(std::move(step))));
    }

    std::tuple<Steps...> steps_;
};

}  // namespace turnstile

#endif

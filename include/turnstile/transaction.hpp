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

/// The signs that a comparison allows; none if it is no comparison.
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

/// A function object of the standard library that compares values of a type.
template <class Compare, class M>
concept comparison_of = !signs_of<Compare>.empty() && requires(const M& m, const Compare& compare) {
    { compare(m, m) } -> std::convertible_to<bool>;
};

/// A number that something can be added to.
template <class M>
concept countable = std::integral<M> && !std::same_as<M, bool> && sizeof(M) <= sizeof(std::int64_t);

/// What a transaction is made of.
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

/// How monitors look into a transaction.
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
 * @brief What is to be done to the state of a monitor in one step, without a body: requirements, changes and
 *        notifications.
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
 * It is carried out as a whole or not at all: if each of its requirements holds, wherever it stands among the
 * others, first all that is to be added is, then the members are set, and then the notifications are sent. It is
 * an ordinary value, and can be carried out as often as one likes, also by several monitors at the same time.
 *
 * Prefer it to a section where it can say what is to be done. Locally it saves a coroutine if it waits; with
 * @ref redis::monitor it takes one round trip and not two, as long as nobody else is in a section.
 *
 * @par Lifetime
 * It refers to its conditions, which have to live until its last operation has ended.
 *
 * @tparam T     the type of the state.
 * @tparam Steps what was said so far.
 *
 * @par Thread safety
 * Distinct objects: Safe. Shared objects: Safe, since nothing changes one.
 */
template <class T, class... Steps>
class transaction
{
public:
    /// The type of the state.
    using value_type = T;

    /// One that requires and changes nothing.
    constexpr transaction() noexcept
        requires(sizeof...(Steps) == 0)
    = default;

    /**
     * @brief The same, and a member of the state has to compare with a value.
     *
     * @param member  for example `&room::writers`.
     * @param compare `std::equal_to()`, `not_equal_to`, `less`, `less_equal`, `greater` or `greater_equal`, whose
     *                first argument is the member.
     * @param value   what it is compared with.
     */
    template <class M, class Base, class Compare>
        requires std::derived_from<T, Base> && detail::comparison_of<Compare, M>
    [[nodiscard]] auto require(M Base::* member, [[maybe_unused]] Compare compare,
                               std::type_identity_t<M> value) const
    {
        return with(detail::requirement<T, M, Compare>{member, std::move(value)});
    }

    /**
     * @brief The same, and as long as a requirement does not hold, it waits on a condition of the monitor.
     *
     * There can be one such condition. Without it, nothing is done if a requirement does not hold.
     */
    template <class Condition>
    [[nodiscard]] auto wait_on(Condition& condition) const
    {
        static_assert(!(detail::is_wait<Steps> || ...), "A transaction waits on one condition.");
        return with(detail::wait_for_it<Condition>{&condition});
    }

    /**
     * @brief The same, and so much is added to a member.
     *
     * If the sum is no value of the member, that is an error, and nothing at all is changed.
     *
     * @param amount may be negative.
     */
    template <detail::countable M, class Base>
        requires std::derived_from<T, Base>
    [[nodiscard]] auto add(M Base::* member, std::int64_t amount) const
    {
        return with(detail::addition<T, M>{member, amount});
    }

    /// The same, and a member is set to a value.
    template <class M, class Base>
        requires std::derived_from<T, Base> && std::is_object_v<M>
    [[nodiscard]] auto set(M Base::* member, std::type_identity_t<M> value) const
    {
        return with(detail::assignment<T, M>{member, std::move(value)});
    }

    /// The same, and the first who waits for the condition is notified.
    template <class Condition>
    [[nodiscard]] auto notify_one(Condition& condition) const
    {
        return with(detail::notification<Condition>{&condition, false});
    }

    /// The same, and all who wait for the condition are notified.
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

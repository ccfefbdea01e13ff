// Copyright (c) 2026 The Turnstile authors
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)

#ifndef TURNSTILE_ASYNC_LOCK_ALL_HPP
#define TURNSTILE_ASYNC_LOCK_ALL_HPP

#include <algorithm>
#include <array>
#include <boost/asio/associated_immediate_executor.hpp>
#include <boost/asio/async_result.hpp>
#include <boost/asio/cancellation_state.hpp>
#include <boost/asio/deferred.hpp>
#include <boost/asio/dispatch.hpp>
#include <boost/asio/error.hpp>
#include <cstddef>
#include <functional>
#include <memory>
#include <source_location>
#include <string_view>
#include <tuple>
#include <turnstile/detail/composed_operation.hpp>
#include <turnstile/detail/started_from.hpp>
#include <turnstile/detail/wait_operation.hpp>
#include <turnstile/error.hpp>
#include <type_traits>
#include <utility>

namespace turnstile {

namespace detail {

/// Where a mutex stands in the order in which all are locked: behind those of one process, which go by their
/// addresses, those that several processes share, by what is the same in all of them.
template <class Mutex>
std::pair<std::string_view, const void*> lock_order(const Mutex& mutex) noexcept
{
    if constexpr (requires { mutex.order_key(); })
        return {mutex.order_key(), nullptr};
    else
        return {std::string_view(), &mutex};
}

/// Locks mutexes one after the other in their order; a composed operation.
template <class... Mutexes>
class lock_all
{
    static constexpr std::size_t count = sizeof...(Mutexes);

public:
    using guards_type = std::tuple<typename Mutexes::guard_type...>;

    explicit lock_all(const std::source_location& location, Mutexes&... mutexes) noexcept
        : mutexes_(&mutexes...)
        , location_(location)
    {
        std::array<std::pair<std::string_view, const void*>, count> place{lock_order(mutexes)...};
        const auto before = [](const auto& a, const auto& b)
        { return a.first != b.first ? a.first < b.first : std::less<>()(a.second, b.second); };
        for (std::size_t i = 0; i < count; ++i)
            order_[i] = i;
        std::sort(order_.begin(), order_.end(),
                  [&](std::size_t a, std::size_t b) { return before(place[a], place[b]); });
        std::sort(place.begin(), place.end(), before);
        has_duplicate_ = std::adjacent_find(place.begin(), place.end()) != place.end();
    }

    template <class Self>
    void operator()(Self& self)
    {
        self.reset_cancellation_state(boost::asio::enable_total_cancellation());
        if (!has_duplicate_)
            return lock_next(self);
        const auto immediate =
            boost::asio::get_associated_immediate_executor(self, self.get_executor());
        boost::asio::dispatch(immediate, bound_completion<Self, error_code>(
                                             std::move(self), make_error_code(errc::duplicate)));
    }

    template <class Self>
    void operator()(Self& self, const error_code& error)
    {
        fail(self, error);
    }

    template <class Self, class Guard>
    void operator()(Self& self, const error_code& error, Guard guard)
    {
        if (error)
            return fail(self, error);
        if (self.cancelled() != boost::asio::cancellation_type::none)
            return fail(self, boost::asio::error::operation_aborted);
        for_next(
            [&]<std::size_t I>(std::integral_constant<std::size_t, I>)
            {
                if constexpr (std::is_same_v<Guard, std::tuple_element_t<I, guards_type>>)
                    std::get<I>(guards_) = std::move(guard);
            });
        if (++locked_ == count)
            self.complete(error_code(), std::move(guards_));
        else
            lock_next(self);
    }

private:
    template <class Self>
    void fail(Self& self, const error_code& error)
    {
        guards_ = guards_type();
        self.complete(error, guards_type());
    }

    template <class Self>
    void lock_next(Self& self)
    {
        for_next(
            [&]<std::size_t I>(std::integral_constant<std::size_t, I>)
            {
                // The members move away together with the handler.
                auto& mutex = *std::get<I>(mutexes_);
                const std::source_location location = location_;
                lock_from(location, mutex, std::move(self));
            });
    }

    /// Calls f with the index of the mutex whose turn it is.
    template <class F>
    void for_next(F f)
    {
        const std::size_t next = order_[locked_];
        [&]<std::size_t... I>(std::index_sequence<I...>)
        {
            static_cast<void>(
                ((next == I && (f(std::integral_constant<std::size_t, I>()), true)) || ...));
        }(std::make_index_sequence<count>());
    }

    std::tuple<Mutexes*...> mutexes_;
    std::source_location location_;
    guards_type guards_;
    std::array<std::size_t, count> order_{};
    std::size_t locked_ = 0;
    bool has_duplicate_ = false;
};

template <class T>
inline constexpr bool is_lock = requires { typename T::guard_type; };

/// The operation that async_lock_all() returns.
template <class... Mutexes>
class lock_all_operation
{
    using guards_type = typename lock_all<Mutexes...>::guards_type;
    using signature = void(error_code, guards_type);

public:
    explicit lock_all_operation(const std::source_location& location, Mutexes&... mutexes) noexcept
        : mutexes_(mutexes...)
        , location_(location)
    {
    }

    template <boost::asio::completion_token_for<signature> CompletionToken>
    auto operator()(CompletionToken&& token) const
    {
        return std::apply(
            [&](Mutexes&... mutexes)
            {
                return start_composed<signature>(lock_all<Mutexes...>(location_, mutexes...),
                                                 std::get<0>(mutexes_).get_executor(),
                                                 std::forward<CompletionToken>(token));
            },
            mutexes_);
    }

private:
    std::tuple<Mutexes&...> mutexes_;
    std::source_location location_;
};

}  // namespace detail

/**
 * @brief Waits for the locks of several mutexes, of any types, without the danger of a deadlock.
 *
 * @code
 * auto guards = co_await turnstile::async_lock_all(account_a, account_b);
 * @endcode
 *
 * The locks are taken one after the other in an order that does not depend on that of the
 * arguments, so two callers never wait for each other in a circle, not in two processes either. Either
 * all locks are owned in the end, or none.
 *
 * @param location what snapshots and reports of the mutexes name as the place where they are waited
 *                 for; may be left out.
 * @param mutexes  at least one.
 * @return An operation: await it, or call it with a completion token,
 *         `async_lock_all(a, b)(boost::asio::use_awaitable)`. The mutexes have to be alive until it is
 *         complete.
 * @par Completion Signature
 * @code void(error_code, std::tuple<lock_guard<Mutexes>...>) @endcode
 * The guards stand in the order of the arguments.
 * @par Errors
 * @ref errc::duplicate if a mutex was given twice, or two objects that name the same lock; else those of
 * locking each of them.
 * @par Per-Operation Cancellation
 * All types: the locks that are owned already are given back.
 * @par Fairness
 * That of each mutex. While it waits for one lock, it holds those before it.
 * @par Thread safety
 * As with the mutexes.
 * @par Complexity
 * Linear in the number of mutexes; one allocation for each that has to be waited for.
 */
template <class... Mutexes>
    requires(sizeof...(Mutexes) > 0 && (detail::is_lock<Mutexes> && ...))
auto async_lock_all(const std::source_location& location, Mutexes&... mutexes)
{
    return detail::lock_all_operation<Mutexes...>(location, mutexes...);
}

/// The same for one mutex. The location is that of the call, for one to three mutexes: behind any
/// number of them, C++ has no place for a default argument.
template <class Mutex>
    requires detail::is_lock<Mutex>
auto async_lock_all(Mutex& mutex,
                    const std::source_location& location = std::source_location::current())
{
    return detail::lock_all_operation<Mutex>(location, mutex);
}

/// The same for two mutexes.
template <class First, class Second>
    requires(detail::is_lock<First> && detail::is_lock<Second>)
auto async_lock_all(First& first, Second& second,
                    const std::source_location& location = std::source_location::current())
{
    return detail::lock_all_operation<First, Second>(location, first, second);
}

/// The same for three mutexes.
template <class First, class Second, class Third>
    requires(detail::is_lock<First> && detail::is_lock<Second> && detail::is_lock<Third>)
auto async_lock_all(First& first, Second& second, Third& third,
                    const std::source_location& location = std::source_location::current())
{
    return detail::lock_all_operation<First, Second, Third>(location, first, second, third);
}

/// The same for more mutexes. Reports then name no place, unless the call begins with
/// `std::source_location::current()`.
template <class... Mutexes>
    requires(sizeof...(Mutexes) > 3 && (detail::is_lock<Mutexes> && ...))
auto async_lock_all(Mutexes&... mutexes)
{
    return detail::lock_all_operation<Mutexes...>(std::source_location(), mutexes...);
}

}  // namespace turnstile

#endif

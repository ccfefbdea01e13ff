// Copyright (c) 2026 The Turnstile authors
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)

#ifndef TURNSTILE_ASYNC_LOCK_ALL_HPP
#define TURNSTILE_ASYNC_LOCK_ALL_HPP

#include <algorithm>
#include <array>
#include <boost/asio/async_result.hpp>
#include <boost/asio/cancellation_state.hpp>
#include <boost/asio/deferred.hpp>
#include <boost/asio/error.hpp>
#include <concepts>
#include <cstddef>
#include <functional>
#include <memory>
#include <source_location>
#include <string_view>
#include <tuple>
#include <turnstile/detail/caller_location.hpp>
#include <turnstile/detail/composed_operation.hpp>
#include <turnstile/detail/wait_operation.hpp>
#include <turnstile/error.hpp>
#include <type_traits>
#include <utility>

namespace turnstile {

namespace detail {

/// The sort key of a mutex. Mutexes of one process come first, in the order of their addresses.
/// Then come mutexes that several processes share, in the order of names that are the same in all
/// processes.
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
    using signature = void(error_code, guards_type);

    explicit lock_all(const std::source_location& location, Mutexes&... mutexes) noexcept
        : mutexes_(&mutexes...)
        , location_(location)
    {
        std::array<std::pair<std::string_view, const void*>, count> place{
            detail::lock_order(mutexes)...};
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
        detail::call_immediately(self, make_error_code(errc::duplicate));
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
        {
            // The lock was granted before the cancellation. It is released before the completion.
            guard = Guard();
            return fail(self, boost::asio::error::operation_aborted);
        }
        for_next(
            [&]<std::size_t I>(std::integral_constant<std::size_t, I>)
            {
                if constexpr (std::is_same_v<Guard, std::tuple_element_t<I, guards_type>>)
                    std::get<I>(guards_) = std::move(guard);
            });
        if (is_any_lost())
            return fail(self, make_error_code(errc::lost));
        if (++locked_ == count)
            self.complete(error_code(), std::move(guards_));
        else
            lock_next(self);
    }

private:
    /// Whether a lock was lost after its grant, for instance while the operation waited for another.
    [[nodiscard]] bool is_any_lost() const noexcept
    {
        return std::apply([](const auto&... guards)
                          { return ((guards.owns_lock() && !guards.valid()) || ...); }, guards_);
    }

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
                // Copies, since the members are moved together with the handler.
                auto& mutex = *std::get<I>(mutexes_);
                const std::source_location location = location_;
                detail::lock_from(location, mutex, std::move(self));
            });
    }

    /// Calls f with the index of the next mutex to lock.
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

/// A completion token for locking these mutexes.
template <class CompletionToken, class... Mutexes>
concept lock_all_token =
    (is_lock<Mutexes> && ...) && (!is_lock<std::remove_cvref_t<CompletionToken>>) &&
    boost::asio::completion_token_for<CompletionToken, typename lock_all<Mutexes...>::signature>;

/// The operation that async_lock_all() returns.
template <class... Mutexes>
class [[nodiscard("an operation does nothing until it is awaited or called with a completion "
                  "token")]] lock_all_operation
{
    using signature = typename lock_all<Mutexes...>::signature;

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

/// Starts the operation with a token; with `deferred`, returns it.
template <class CompletionToken, class... Mutexes>
auto start_lock_all(const std::source_location& location, CompletionToken&& token,
                    Mutexes&... mutexes)
{
    lock_all_operation<Mutexes...> operation(location, mutexes...);
    if constexpr (std::is_same_v<std::decay_t<CompletionToken>, boost::asio::deferred_t>)
        return operation;
    else
        return operation(std::forward<CompletionToken>(token));
}

/// Arguments that are mutexes, followed by a token for locking them.
template <class... Args>
class token_behind_mutexes
{
    using arguments = std::tuple<Args&&...>;
    static constexpr std::size_t count = sizeof...(Args) - 1;

    template <std::size_t I>
    using argument = std::remove_reference_t<std::tuple_element_t<I, arguments>>;

    template <std::size_t... I>
    static consteval bool check(std::index_sequence<I...> /*mutexes*/)
    {
        return lock_all_token<std::tuple_element_t<count, std::tuple<Args...>>, argument<I>...>;
    }

public:
    static constexpr bool value = check(std::make_index_sequence<count>());

    static auto start(const std::source_location& location, arguments args)
    {
        return [&]<std::size_t... I>(std::index_sequence<I...>)
        {
            return detail::start_lock_all(location, std::get<count>(std::move(args)),
                                          std::get<I>(args)...);
        }(std::make_index_sequence<count>());
    }
};

}  // namespace detail

}  // namespace turnstile

/// Composes with `boost::asio::deferred` like Asio's own operations.
template <class... Mutexes>
struct boost::asio::is_deferred<turnstile::detail::lock_all_operation<Mutexes...>> : std::true_type
{
};

namespace turnstile {

/**
 * @brief Waits for the locks of several mutexes, of any types, without deadlocks.
 *
 * @code
 * auto guards = co_await turnstile::async_lock_all(account_a, account_b);
 * @endcode
 *
 * The locks are acquired one after the other, in an order that does not depend on the order of the
 * arguments. So callers never wait for each other in a cycle, even in different processes. In the
 * end, either all locks are held, or none.
 *
 * @param first,second the mutexes. They and the contexts of their fallback executors must exist until the operation has
 *                     completed.
 * @param token        a completion token. Without one, the function returns an operation, which is
 *                     started by `co_await` or by calling it with a token.
 * @param location     the place of the call in snapshots and reports of the mutexes.
 * @par Completion Signature
 * @code void(error_code, std::tuple<lock_guard<Mutexes>...>) @endcode
 * The guards are in the order of the arguments.
 * @par Errors
 * @ref errc::duplicate if two arguments are the same mutex, or name the same lock. @ref errc::lost if
 * a lock was lost before the last one was acquired. Otherwise the errors of locking each mutex.
 * @par Per-Operation Cancellation
 * All types; the locks that are held already are released.
 * @par Fairness
 * That of each mutex. While the operation waits for one lock, it holds the previous ones.
 * @par Thread safety
 * As with the mutexes.
 * @par Immediate completion
 * If all mutexes are local and free, through the associated immediate executor.
 * @par Complexity
 * Linear in the number of mutexes; one allocation for each mutex that is not free.
 */
template <class First, class Second,
          detail::lock_all_token<First, Second> CompletionToken = boost::asio::deferred_t>
auto async_lock_all(First& first, Second& second, CompletionToken&& token = {},
                    const std::source_location& location = std::source_location::current())
{
    return detail::start_lock_all(location, std::forward<CompletionToken>(token), first, second);
}

/// The same for one mutex.
template <class Mutex, detail::lock_all_token<Mutex> CompletionToken = boost::asio::deferred_t>
auto async_lock_all(Mutex& mutex, CompletionToken&& token = {},
                    const std::source_location& location = std::source_location::current())
{
    return detail::start_lock_all(location, std::forward<CompletionToken>(token), mutex);
}

/// The same for three mutexes.
template <class First, class Second, class Third,
          detail::lock_all_token<First, Second, Third> CompletionToken = boost::asio::deferred_t>
auto async_lock_all(First& first, Second& second, Third& third, CompletionToken&& token = {},
                    const std::source_location& location = std::source_location::current())
{
    return detail::start_lock_all(location, std::forward<CompletionToken>(token), first, second,
                                  third);
}

/// The same for more mutexes. Reports contain no location, unless the call begins with
/// `std::source_location::current()`: C++ allows no default argument after an arbitrary number of
/// mutexes.
template <class... Mutexes>
    requires(sizeof...(Mutexes) > 3 && (detail::is_lock<Mutexes> && ...))
auto async_lock_all(Mutexes&... mutexes)
{
    return detail::lock_all_operation<Mutexes...>(std::source_location(), mutexes...);
}

/// The same for more mutexes, followed by a completion token.
template <class... Args>
    requires(sizeof...(Args) > 4 && detail::token_behind_mutexes<Args...>::value)
auto async_lock_all(Args&&... args)
{
    return detail::token_behind_mutexes<Args...>::start(
        std::source_location(), std::forward_as_tuple(std::forward<Args>(args)...));
}

/// The same for any number of mutexes, with a location.
template <std::same_as<std::source_location> Location, class... Mutexes>
    requires(sizeof...(Mutexes) > 0 && (detail::is_lock<Mutexes> && ...))
auto async_lock_all(const Location& location, Mutexes&... mutexes)
{
    return detail::lock_all_operation<Mutexes...>(location, mutexes...);
}

/// The same for any number of mutexes, with a location, followed by a completion token.
// The location has a type parameter that is checked first. Otherwise, g++ checks the token of a call without a location
// against the mutexes behind the first one, which does not compile if the token is a generic lambda.
template <std::same_as<std::source_location> Location, class... Args>
    requires(sizeof...(Args) > 1 && detail::token_behind_mutexes<Args...>::value)
auto async_lock_all(const Location& location, Args&&... args)
{
    return detail::token_behind_mutexes<Args...>::start(
        location, std::forward_as_tuple(std::forward<Args>(args)...));
}

}  // namespace turnstile

#endif

// Copyright (c) 2026 The Turnstile authors
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)

#ifndef TURNSTILE_TEST_SUPPORT_ANY_GUARD_HPP
#define TURNSTILE_TEST_SUPPORT_ANY_GUARD_HPP

#include <boost/asio/cancellation_signal.hpp>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <turnstile/lock_guard.hpp>
#include <turnstile/permit.hpp>
#include <turnstile/redis/async_mutex.hpp>
#include <turnstile/redis/async_semaphore.hpp>
#include <turnstile/redis/shared_mutex.hpp>
#include <utility>
#include <variant>

namespace turnstile::test {

/// A guard of any kind of lock over Redis, or a permit, or nothing.
class any_guard
{
public:
    using permit_type = redis::async_semaphore::permit_type;
    using upgrade_guard_type = redis::shared_mutex::upgrade_guard_type;

    any_guard() = default;

    /// Accepts a guard, bare or in an optional.
    template <class Guard>
    explicit any_guard(Guard guard)
        : guard_(std::move(guard))
    {
    }

    template <class Guard>
    explicit any_guard(std::optional<Guard> guard)
    {
        if (guard)
            guard_ = std::move(*guard);
    }

    [[nodiscard]] explicit operator bool() const
    {
        return std::visit([](const auto& g) { return static_cast<bool>(g); }, guard_);
    }
    [[nodiscard]] bool valid() const
    {
        return std::visit([](const auto& g) { return g.valid(); }, guard_);
    }
    [[nodiscard]] boost::asio::cancellation_slot lost() const
    {
        return std::visit([](const auto& g) { return g.lost(); }, guard_);
    }

    [[nodiscard]] std::uint64_t fence() const
    {
        return std::visit([](const auto& g) { return g.fencing_token(); }, guard_);
    }

    /// Releases the guard. @p token has to give the operations of all kinds the same result type, as a
    /// handler or `use_awaitable` does. The guard has to stay alive until the operation has started.
    template <class CompletionToken>
    auto release(CompletionToken token)
    {
        return std::visit([&](auto& g) { return give_back(g, std::move(token)); }, guard_);
    }

    /// The guard of a mutex; throws if this is another kind.
    [[nodiscard]] redis::async_mutex::guard_type& mutex()
    {
        return std::get<redis::async_mutex::guard_type>(guard_);
    }
    [[nodiscard]] permit_type& permit() { return std::get<permit_type>(guard_); }
    [[nodiscard]] upgrade_guard_type& upgradable() { return std::get<upgrade_guard_type>(guard_); }

private:
    template <class Mutex, class CompletionToken>
    static auto give_back(lock_guard<Mutex>& guard, CompletionToken token)
    {
        return guard.async_unlock(std::move(token));
    }
    template <class CompletionToken>
    static auto give_back(permit_type& permit, CompletionToken token)
    {
        return permit.async_release(std::move(token));
    }

    std::variant<redis::async_mutex::guard_type, permit_type, redis::shared_mutex::guard_type,
                 redis::shared_mutex::shared_guard_type, upgrade_guard_type>
        guard_;
};

}  // namespace turnstile::test

#endif

// Copyright (c) 2026 The Turnstile authors
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)

#ifndef TURNSTILE_DETAIL_KEPT_EXECUTOR_HPP
#define TURNSTILE_DETAIL_KEPT_EXECUTOR_HPP

#include <boost/asio/any_io_executor.hpp>
#include <boost/asio/execution/any_executor.hpp>
#include <boost/asio/execution/blocking.hpp>
#include <boost/asio/execution/executor.hpp>
#include <boost/asio/executor.hpp>
#include <boost/asio/system_executor.hpp>
#include <concepts>
#include <memory>
#include <optional>
#include <turnstile/detail/context_registry.hpp>
#include <turnstile/detail/executor_context.hpp>
#include <type_traits>
#include <utility>

namespace turnstile::detail {

/**
 * @brief The fallback executor of an object, which does not outlive its context.
 *
 * The destructor of a strand, for instance, accesses the context. So the executor is destroyed when
 * its context shuts down. A moved-from executor remains, which can be copied and destroyed. The
 * plain executor of an `io_context` is kept, because it does not access the context.
 */
template <class Executor>
class kept_executor final : private context_guest
{
public:
    explicit kept_executor(Executor executor)
        : executor_(std::move(executor))
    {
        watch();
    }

    /// Keeps a copy, unless the context has ended.
    kept_executor(const kept_executor& other)
        : context_guest()
        , executor_(other.executor_)
        , is_gone_(other.is_gone_)
    {
        watch();
    }

    kept_executor& operator=(const kept_executor&) = delete;

    ~kept_executor() { quit(); }

    /// Afterwards, the end of the context does not access the executor.
    using context_guest::quit;

    /// The executor; a moved-from one if its context has been destroyed. The plain executor of an
    /// io_context is returned even then, and must not be used.
    [[nodiscard]] const Executor& get() const noexcept { return executor_; }

    /// Whether the executor still exists.
    [[nodiscard]] explicit operator bool() const noexcept { return !is_gone_; }

    /// Moves the executor out, if it still exists.
    [[nodiscard]] std::optional<Executor> take() noexcept
    {
        if (std::exchange(is_gone_, true))
            return std::nullopt;
        return std::move(executor_);
    }

private:
    void watch()
    {
        // The plain executor of an io_context may outlive it, and the system executor has no state.
        // A query for the context of the system executor would start its threads. A moved-from executor may
        // still name its context.
        if (is_gone_ || std::is_same_v<Executor, boost::asio::system_executor> ||
            plain_context_of(executor_) != nullptr)
            return;
        if (auto* context = context_of(executor_))
        {
            remains_ = std::make_unique<remains>();
            join<context_registry>(*context);
        }
    }

    struct remains final : context_remains
    {
        std::optional<Executor> executor;
    };

    context_remains* context_ends() noexcept override
    {
        is_gone_ = true;
        remains_->executor.emplace(std::move(executor_));
        return remains_.release();
    }

    Executor executor_;
    bool is_gone_ = false;
    std::unique_ptr<remains> remains_;
};

/// Whether an any_io_executor can hold the executor. The context is checked first, since the
/// conversion does not compile for an executor without one.
template <class Executor>
concept io_executor =
    has_context_property<Executor> && std::convertible_to<Executor, boost::asio::any_io_executor>;

template <class Executor>
struct executor_or_system_type
{
    using type = boost::asio::execution::any_executor<boost::asio::execution::blocking_t::never_t>;
};

template <io_executor Executor>
struct executor_or_system_type<Executor>
{
    using type = boost::asio::any_io_executor;
};

#if !defined(BOOST_ASIO_NO_TS_EXECUTORS)

/// An executor of the Networking TS.
template <class Executor>
    requires(!boost::asio::execution::is_executor<Executor>::value)
struct executor_or_system_type<Executor>
{
    using type = boost::asio::executor;
};

#endif

/// A type that can hold the executor or the system executor.
template <class Executor>
using executor_or_system_t = typename executor_or_system_type<Executor>::type;

}  // namespace turnstile::detail

#endif

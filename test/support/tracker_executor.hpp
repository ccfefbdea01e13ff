// Copyright (c) 2026 The Turnstile authors
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)

#ifndef TURNSTILE_TEST_SUPPORT_TRACKER_EXECUTOR_HPP
#define TURNSTILE_TEST_SUPPORT_TRACKER_EXECUTOR_HPP

#include <boost/asio/any_io_executor.hpp>
#include <boost/asio/prefer.hpp>
#include <boost/asio/query.hpp>
#include <boost/asio/require.hpp>
#include <concepts>
#include <utility>

namespace turnstile::test {

/**
 * @brief An executor with a number that its functions can query. It wraps another executor.
 */
class tracker_executor
{
public:
    tracker_executor(boost::asio::any_io_executor inner, int number)
        : inner_(std::move(inner))
        , number_(number)
    {
    }

    /// The number of the executor that runs the caller; 0 if there is none.
    static int current() noexcept { return current_; }

    template <class Property>
        requires boost::asio::can_query_v<const boost::asio::any_io_executor&, Property>
    [[nodiscard]] decltype(auto) query(const Property& property) const
    {
        return boost::asio::query(inner_, property);
    }

    template <class Property>
        requires boost::asio::can_require_v<const boost::asio::any_io_executor&, Property>
    [[nodiscard]] tracker_executor require(const Property& property) const
    {
        return {boost::asio::require(inner_, property), number_};
    }

    template <class Property>
        requires boost::asio::can_prefer_v<const boost::asio::any_io_executor&, Property>
    [[nodiscard]] tracker_executor prefer(const Property& property) const
    {
        return {boost::asio::prefer(inner_, property), number_};
    }

    template <std::invocable F>
    void execute(F&& f) const
    {
        inner_.execute(
            [number = number_, run = std::forward<F>(f)]() mutable
            {
                const scope inside(number);
                std::move(run)();
            });
    }

    friend bool operator==(const tracker_executor&, const tracker_executor&) noexcept = default;

private:
    /// Sets the number during a function call.
    class scope
    {
    public:
        explicit scope(int number) noexcept
            : before_(std::exchange(current_, number))
        {
        }

        scope(const scope&) = delete;
        scope& operator=(const scope&) = delete;

        ~scope() { current_ = before_; }

    private:
        int before_;
    };

    inline static thread_local int current_ = 0;

    boost::asio::any_io_executor inner_;
    int number_;
};

}  // namespace turnstile::test

#endif

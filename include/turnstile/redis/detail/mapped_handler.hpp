// Copyright (c) 2026 The Turnstile authors
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)

#ifndef TURNSTILE_REDIS_DETAIL_MAPPED_HANDLER_HPP
#define TURNSTILE_REDIS_DETAIL_MAPPED_HANDLER_HPP

#include <boost/asio/associator.hpp>
#include <turnstile/error.hpp>
#include <type_traits>
#include <utility>

namespace turnstile::redis::detail {

/// Maps the last argument of a handler with a function, which may also receive the error and change it. Keeps the
/// handler's associations.
template <class Handler, class Function>
class mapped_handler
{
public:
    mapped_handler(Handler handler, Function function)
        : handler_(std::move(handler))
        , function_(std::move(function))
    {
    }

    template <class Result>
    void operator()(error_code error, Result&& result)
    {
        if constexpr (std::is_invocable_v<Function&, error_code&, Result>)
        {
            auto mapped = function_(error, std::forward<Result>(result));
            std::move(handler_)(error, std::move(mapped));
        }
        else
        {
            std::move(handler_)(error, function_(std::forward<Result>(result)));
        }
    }

    [[nodiscard]] const Handler& handler() const noexcept { return handler_; }

private:
    Handler handler_;
    Function function_;
};

/// Calls a handler without the result of the operation.
template <class Handler>
class resultless_handler
{
public:
    explicit resultless_handler(Handler handler)
        : handler_(std::move(handler))
    {
    }

    template <class Error, class Result>
    void operator()(Error&& error, Result&& /*result*/)
    {
        std::move(handler_)(std::forward<Error>(error));
    }

    [[nodiscard]] const Handler& handler() const noexcept { return handler_; }

private:
    Handler handler_;
};

}  // namespace turnstile::redis::detail

/// Forwards the associations of the inner handler.
template <template <class, class> class Associator, class Handler, class Function,
          class DefaultCandidate>
struct boost::asio::associator<
    Associator, turnstile::redis::detail::mapped_handler<Handler, Function>, DefaultCandidate>
    : Associator<Handler, DefaultCandidate>
{
    using mapped_type = turnstile::redis::detail::mapped_handler<Handler, Function>;

    static typename Associator<Handler, DefaultCandidate>::type get(
        const mapped_type& mapped) noexcept
    {
        return Associator<Handler, DefaultCandidate>::get(mapped.handler());
    }

    static auto get(const mapped_type& mapped, const DefaultCandidate& candidate) noexcept
        -> decltype(Associator<Handler, DefaultCandidate>::get(mapped.handler(), candidate))
    {
        return Associator<Handler, DefaultCandidate>::get(mapped.handler(), candidate);
    }
};

template <template <class, class> class Associator, class Handler, class DefaultCandidate>
struct boost::asio::associator<Associator, turnstile::redis::detail::resultless_handler<Handler>,
                               DefaultCandidate> : Associator<Handler, DefaultCandidate>
{
    using mapped_type = turnstile::redis::detail::resultless_handler<Handler>;

    static typename Associator<Handler, DefaultCandidate>::type get(
        const mapped_type& mapped) noexcept
    {
        return Associator<Handler, DefaultCandidate>::get(mapped.handler());
    }

    static auto get(const mapped_type& mapped, const DefaultCandidate& candidate) noexcept
        -> decltype(Associator<Handler, DefaultCandidate>::get(mapped.handler(), candidate))
    {
        return Associator<Handler, DefaultCandidate>::get(mapped.handler(), candidate);
    }
};

#endif

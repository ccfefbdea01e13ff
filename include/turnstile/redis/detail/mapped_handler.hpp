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

/// Maps the result of an operation with a function, which may also receive the error and change it. If the function
/// returns nothing, the handler receives only the error. Keeps the handler's associations.
template <class Handler, class Function>
class mapped_handler
{
public:
    mapped_handler(Handler handler, Function function)
        : handler_(std::move(handler))
        , function_(std::move(function))
    {
    }

    /// The operation has no result.
    void operator()(error_code error) { std::move(handler_)(error); }

    template <class Result>
    void operator()(error_code error, Result&& result)
    {
        const auto map = [&]() -> decltype(auto)
        {
            if constexpr (std::is_invocable_v<Function&, error_code&, Result>)
                return function_(error, std::forward<Result>(result));
            else
                return function_(std::forward<Result>(result));
        };
        if constexpr (std::is_void_v<decltype(map())>)
        {
            map();
            std::move(handler_)(error);
        }
        else
        {
            auto mapped = map();
            std::move(handler_)(error, std::move(mapped));
        }
    }

    [[nodiscard]] const Handler& handler() const noexcept { return handler_; }

private:
    Handler handler_;
    Function function_;
};

/// Maps any result to nothing.
struct without_result
{
    template <class Result>
    void operator()(Result&& /*result*/) const noexcept
    {
    }
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

#endif

// Copyright (c) 2026 The Turnstile authors
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)

#ifndef TURNSTILE_DETAIL_COMPOSED_OPERATION_HPP
#define TURNSTILE_DETAIL_COMPOSED_OPERATION_HPP

#include <boost/asio/associated_executor.hpp>
#include <boost/asio/async_result.hpp>
#include <boost/asio/compose.hpp>
#include <type_traits>
#include <utility>

namespace turnstile::detail {

/// Starts a composed operation. Unlike async_compose() alone, it keeps work on the executor of the
/// handler only: the context of the object may be gone before the operation is over.
template <class Signature, class Executor>
class initiate_composed
{
public:
    using executor_type = Executor;

    explicit initiate_composed(Executor executor) noexcept
        : executor_(std::move(executor))
    {
    }

    [[nodiscard]] const executor_type& get_executor() const noexcept { return executor_; }

    template <class Handler, class Implementation>
    void operator()(Handler&& handler, Implementation implementation) const
    {
        using handler_type = std::decay_t<Handler>;
        handler_type own(std::forward<Handler>(handler));
        const auto executor = boost::asio::get_associated_executor(own, executor_);
        boost::asio::async_compose<handler_type, Signature>(std::move(implementation), own,
                                                            executor);
    }

private:
    Executor executor_;
};

template <class Signature, class Implementation, class Executor, class CompletionToken>
auto start_composed(Implementation implementation, const Executor& executor,
                    CompletionToken&& token)
{
    return boost::asio::async_initiate<CompletionToken, Signature>(
        initiate_composed<Signature, Executor>(executor), token, std::move(implementation));
}

}  // namespace turnstile::detail

#endif

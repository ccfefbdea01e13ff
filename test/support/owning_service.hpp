// Copyright (c) 2026 The Turnstile authors
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)

#ifndef TURNSTILE_TEST_SUPPORT_OWNING_SERVICE_HPP
#define TURNSTILE_TEST_SUPPORT_OWNING_SERVICE_HPP

#include <boost/asio/execution_context.hpp>
#include <memory>
#include <utility>

namespace turnstile::test {

/// A service that owns an object until its shutdown.
class owning_service final : public boost::asio::execution_context::service
{
public:
    using key_type = owning_service;
    inline static boost::asio::execution_context::id id;

    owning_service(boost::asio::execution_context& context, std::shared_ptr<void> owned)
        : service(context)
        , owned_(std::move(owned))
    {
    }

private:
    void shutdown() override { owned_.reset(); }

    std::shared_ptr<void> owned_;
};

}  // namespace turnstile::test

#endif

// Copyright (c) 2026 The Turnstile authors
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)

#ifndef TURNSTILE_TEST_SERVICE_CROWD_HPP
#define TURNSTILE_TEST_SERVICE_CROWD_HPP

#include "http_client.hpp"

#include <memory>
#include <vector>

namespace turnstile::test {

/// Many clients without requests. The event loop of a server receives up to 128 events at a time. So a stopped server
/// that continues finds what came before send(), and begins to handle that, before it finds what came afterwards.
class crowd
{
public:
    explicit crowd(const site& server)
    {
        for (int i = 0; i < 300; ++i)
            clients_.push_back(std::make_unique<http_client>(server));
    }

    /// Each client sends an empty line, which begins no request.
    void send() const
    {
        for (const auto& client : clients_)
            client->send("\r\n");
    }

private:
    std::vector<std::unique_ptr<http_client>> clients_;
};

}  // namespace turnstile::test

#endif

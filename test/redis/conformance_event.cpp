// Copyright (c) 2026 The Turnstile authors
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)

// The conformance suite of the event, over a real server.

#include <support/redis_backend.hpp>
#include <tuple>
#include <turnstile/redis/event.hpp>

namespace turnstile::test {

class redis_event_provider : public redis_backend
{
public:
    using event_type = redis::event;

    [[nodiscard]] event_type make_event(bool automatic, bool is_set)
    {
        return event_type(session(), new_name(),
                          automatic ? event_reset::automatic : event_reset::manual, is_set);
    }
};

}  // namespace turnstile::test

using event_providers = std::tuple<turnstile::test::redis_event_provider>;

#include <conformance/event_suite.hpp>

// Copyright (c) 2026 The Turnstile authors
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)

// Runs the conformance suite for the local event, with two kinds of executor and synchronization.

#include <support/backend_test.hpp>
#include <turnstile/event.hpp>

namespace {

template <class Executor, class Synchronization>
class local_provider : public turnstile::test::local_backend<Executor>
{
public:
    using event_type = turnstile::basic_event<Executor, Synchronization>;

    [[nodiscard]] event_type make_event(bool automatic, bool is_set) const
    {
        using turnstile::event_reset;
        return event_type(this->executor(),
                          automatic ? event_reset::automatic : event_reset::manual, is_set);
    }
};

using event_providers = turnstile::test::local_providers<local_provider>;

}  // namespace

#include <conformance/event_suite.hpp>

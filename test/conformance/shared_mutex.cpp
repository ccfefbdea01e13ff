// Copyright (c) 2026 The Turnstile authors
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)

// Runs the conformance suite for the local shared mutex, with two kinds of executor and synchronization.

#include <support/backend_test.hpp>
#include <turnstile/shared_mutex.hpp>

namespace {

template <class Executor, class Synchronization>
class local_provider : public turnstile::test::local_backend<Executor>
{
public:
    using shared_mutex_type = turnstile::basic_shared_mutex<Executor, Synchronization>;

    [[nodiscard]] shared_mutex_type make_shared_mutex() const
    {
        return shared_mutex_type(this->executor());
    }
};

using shared_mutex_providers = turnstile::test::local_providers<local_provider>;

}  // namespace

#include <conformance/shared_mutex_suite.hpp>

// Copyright (c) 2026 The Turnstile authors
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)

// Runs the conformance suite for the local barrier, with two kinds of executor and synchronization.

#include <cstddef>
#include <support/backend_test.hpp>
#include <turnstile/barrier.hpp>

namespace {

template <class Executor, class Synchronization>
class local_provider : public turnstile::test::local_backend<Executor>
{
public:
    using barrier_type = turnstile::basic_barrier<Executor, Synchronization>;

    [[nodiscard]] barrier_type make_barrier(std::ptrdiff_t participants) const
    {
        return barrier_type(this->executor(), participants);
    }
};

using barrier_providers = turnstile::test::local_providers<local_provider>;

}  // namespace

#include <conformance/barrier_suite.hpp>

// Copyright (c) 2026 The Turnstile authors
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)

// Runs the conformance suite for the local latch, with two kinds of executor and synchronization.

#include <cstddef>
#include <support/backend_test.hpp>
#include <turnstile/latch.hpp>

namespace {

template <class Executor, class Synchronization>
class local_provider : public turnstile::test::local_backend<Executor>
{
public:
    using latch_type = turnstile::basic_latch<Executor, Synchronization>;

    [[nodiscard]] latch_type make_latch(std::ptrdiff_t count) const
    {
        return latch_type(this->executor(), count);
    }
};

using latch_providers = turnstile::test::local_providers<local_provider>;

}  // namespace

#include <conformance/latch_suite.hpp>

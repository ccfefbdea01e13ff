// Copyright (c) 2026 The Turnstile authors
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)

// Runs the conformance suite for the local job queue, with two kinds of executor and synchronization.

#include <cstddef>
#include <string>
#include <support/backend_test.hpp>
#include <turnstile/job_queue.hpp>

namespace turnstile::test {

template <class Executor, class Synchronization>
class local_job_queue_provider : public local_backend<Executor>
{
public:
    using queue_type = basic_job_queue<std::string, Executor, Synchronization>;

    [[nodiscard]] queue_type make_queue(std::size_t max_payload) const
    {
        return queue_type(this->executor(), max_payload);
    }
};

}  // namespace turnstile::test

using job_queue_providers =
    turnstile::test::local_providers<turnstile::test::local_job_queue_provider>;

#include <conformance/job_queue_suite.hpp>
#include <conformance/job_suite.hpp>

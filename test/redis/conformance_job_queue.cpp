// Copyright (c) 2026 The Turnstile authors
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)

// The conformance suite of the job queue, over a real server.

#include <cstddef>
#include <string>
#include <support/redis_backend.hpp>
#include <tuple>
#include <turnstile/concepts.hpp>
#include <turnstile/redis/job_queue.hpp>

namespace turnstile::test {

static_assert(awaitable_job_queue<redis::job_queue<std::string>>);

class redis_job_queue_provider : public redis_backend
{
public:
    using queue_type = redis::job_queue<std::string>;

    [[nodiscard]] queue_type make_queue(std::size_t max_payload)
    {
        return queue_type(session(), new_name(), max_payload);
    }
};

}  // namespace turnstile::test

using job_queue_providers = std::tuple<turnstile::test::redis_job_queue_provider>;

#include <conformance/job_queue_suite.hpp>
#include <conformance/job_suite.hpp>

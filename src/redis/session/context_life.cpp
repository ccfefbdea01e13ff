// Copyright (c) 2026 The Turnstile authors
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)

#include "redis/session/context_life.hpp"

#include <atomic>
#include <boost/asio/query.hpp>
#include <cstdint>
#include <new>
#include <pthread.h>
#include <vector>

namespace turnstile::redis::detail {

std::recursive_mutex& common_mutex()
{
    // Never destroyed, because contexts may end after the destructors of static objects.
    static auto* const mutex = new std::recursive_mutex;
    // Once per process; a child inherits the registration. It needs a new mutex, because the owner of a recursive one is
    // a thread of the parent.
    static const int registered =
        pthread_atfork([] { mutex->lock(); }, [] { mutex->unlock(); },
                       [] { ::new (static_cast<void*>(mutex)) std::recursive_mutex; });
    static_cast<void>(registered);
    return *mutex;
}

namespace {

/// The number of lives that have been destroyed.
constinit std::atomic<std::uint64_t> ended_lives = 0;

/// The context that a thread used last. Without a destructor, because the destructor of a thread-local object may start
/// an operation.
struct latest_context
{
    const boost::asio::execution_context* context = nullptr;
    context_life* life = nullptr;
    /// Another context may have the address of one that has been destroyed since.
    std::uint64_t ended = 0;
};

}  // namespace

context_life::~context_life()
{
    while (evict_all())
    {
    }
    ++ended_lives;
}

context_life* context_life::of(const boost::asio::any_io_executor& executor)
{
    if (!executor)
        return nullptr;
    boost::asio::execution_context& context =
        boost::asio::query(executor, boost::asio::execution::context);
    // Finding a service locks a mutex and searches a list, and most handlers of a thread belong to one context.
    static constinit thread_local latest_context latest;
    const std::uint64_t ended = ended_lives.load(std::memory_order_relaxed);
    if (latest.context != &context || latest.ended != ended)
        latest = {&context, &boost::asio::use_service<context_life>(context), ended};
    return latest.life;
}

void context_life::shutdown()
{
    evict_all();
}

/// Returns whether there were any residents.
bool context_life::evict_all()
{
    std::vector<std::shared_ptr<void>> evicted;
    const std::lock_guard lock(common_mutex());
    for (context_resident& resident : residents_)
        evicted.push_back(resident.evict());
    residents_.clear();
    return !evicted.empty();
}

}  // namespace turnstile::redis::detail

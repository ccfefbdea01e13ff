// Copyright (c) 2026 The Turnstile authors
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)

#include "redis/session/context_life.hpp"

#include <boost/asio/query.hpp>
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

/// The context that the present thread used last. The destructor of an object may use a context when the
/// thread-local objects of its thread have been destroyed already.
struct latest_context
{
    boost::asio::execution_context* context = nullptr;
    std::shared_ptr<context_life> life;

    ~latest_context() { is_gone = true; }

    inline static thread_local bool is_gone = false;
};

class life_service final : public boost::asio::execution_context::service
{
public:
    using key_type = life_service;

    // Asio uses this member as the key of the service.
    inline static boost::asio::execution_context::id id;

    explicit life_service(boost::asio::execution_context& context)
        : service(context)
    {
    }

    [[nodiscard]] const std::shared_ptr<context_life>& life() const noexcept { return life_; }

private:
    void shutdown() override
    {
        std::vector<std::shared_ptr<void>> evicted;
        const std::lock_guard lock(life_->mutex);
        life_->alive = false;
        for (context_resident& resident : life_->residents)
            evicted.push_back(resident.evict());
        life_->residents.clear();
    }

    std::shared_ptr<context_life> life_ = std::make_shared<context_life>();
};

}  // namespace

context_life::context_life()
    : mutex(common_mutex())
{
}

std::shared_ptr<context_life> context_life::of(const boost::asio::any_io_executor& executor)
{
    if (!executor)
        return nullptr;
    boost::asio::execution_context& context =
        boost::asio::query(executor, boost::asio::execution::context);
    // Finding a service locks a mutex and searches a list, and most handlers of a thread belong to one
    // context. While the context lives, no other context has its address.
    if (latest_context::is_gone)
        return boost::asio::use_service<life_service>(context).life();
    thread_local latest_context latest;
    if (latest.context != &context || !latest.life->alive)
    {
        latest.life = boost::asio::use_service<life_service>(context).life();
        latest.context = &context;
    }
    return latest.life;
}

}  // namespace turnstile::redis::detail

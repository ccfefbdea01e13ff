// Copyright (c) 2026 The Turnstile authors
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)

#include "redis/session/session_core.hpp"

#include <boost/asio/io_context.hpp>
#include <boost/asio/strand.hpp>
#include <boost/asio/system_executor.hpp>
#include <boost/asio/thread_pool.hpp>
#include <memory>
#include <mutex>
#include <new>
#include <thread>
#include <turnstile/redis/session.hpp>
#include <utility>
#include <vector>

namespace turnstile::redis {

namespace detail {

namespace {

/// Makes a strand of the concrete executor type if it is known: an any_io_executor can store such a strand
/// without an allocation. It cannot store a strand of an any_io_executor, and executors are copied about
/// twenty times per command.
boost::asio::any_io_executor make_strand(const boost::asio::any_io_executor& executor)
{
    if (const auto* known = executor.target<boost::asio::io_context::executor_type>())
        return boost::asio::make_strand(*known);
    if (const auto* known = executor.target<boost::asio::thread_pool::executor_type>())
        return boost::asio::make_strand(*known);
    return boost::asio::make_strand(executor);
}

}  // namespace

boost::asio::any_io_executor system_executor()
{
    return boost::asio::system_executor();
}

session_core::session_core(const boost::asio::any_io_executor& fallback,
                           const boost::asio::any_io_executor& executor, config given)
    : settings(std::move(given))
    , fallback_(fallback)
    , posts_(make_strand(executor))
    , engine_(std::make_shared<session_engine>(posts_, settings))
{
    context_life* const life = context_life::of(executor);
    // asio::post() would do this for each function.
    posts_ = boost::asio::require(posts_, boost::asio::execution::blocking.never);
    const std::lock_guard lock(common_mutex());
    post([](session_engine& engine) { engine.start(); });
    // Last, because the destructor does not run if the constructor fails.
    life->move_in(*this);
}

session_core::~session_core()
{
    // Destroyed after the lock, which the end of an engine may need.
    std::shared_ptr<void> rest;
    const std::lock_guard lock(common_mutex());
    unlink();
    rest = evict();
}

void session_core::stop()
{
    post([](session_engine& engine) { engine.stop(); });
    std::shared_ptr<void> rest;
    const std::lock_guard lock(common_mutex());
    rest = evict();
}

session_metrics session_core::metrics() const
{
    // The parent's thread may have held the mutex of the metrics during the fork.
    if (is_forked())
        return {};
    const std::lock_guard lock(common_mutex());
    auto result = engine_ ? engine_->metrics() : session_metrics();
    result.grant_delivery = deliveries;
    return result;
}

boost::asio::any_io_executor session_core::fallback()
{
    boost::asio::any_io_executor result = system_executor();
    fallback_.use([&](const boost::asio::any_io_executor& executor) { result = executor; });
    return result;
}

std::shared_ptr<void> session_core::evict() noexcept
{
    posts_ = nullptr;
    return std::exchange(engine_, nullptr);
}

boost::asio::any_io_executor executor_of(session_core& core) noexcept
{
    return core.fallback();
}

void start_ready(const std::shared_ptr<session_core>& core,
                 erased_handler<void(error_code)> handler)
{
    ask(*core, std::move(handler),
        [](session_engine& engine, const auto& done) { engine.ready(done); });
}

void start_ping(const std::shared_ptr<session_core>& core, erased_handler<void(error_code)> handler)
{
    ask(*core, std::move(handler),
        [](session_engine& engine, const auto& done) { engine.ping(done); });
}

void start_close(const std::shared_ptr<session_core>& core,
                 erased_handler<void(error_code)> handler)
{
    ask(*core, std::move(handler),
        [](session_engine& engine, const auto& done) { engine.close(done); });
}

}  // namespace detail

/// A context with its own thread.
class session::own_thread
{
public:
    own_thread() = default;
    own_thread(const own_thread&) = delete;
    own_thread& operator=(const own_thread&) = delete;

    /// Waits until the thread has no more work. The end of a session completes its operations in several steps, so a
    /// stop of the context would drop some of their handlers.
    /// On the thread itself, which may drop the last reference to an object of the user that owns the session, a wait is
    /// impossible. Then the thread continues alone.
    ~own_thread()
    {
        work_.reset();
        if (thread_.get_id() == std::this_thread::get_id())
            thread_.detach();
        else
            thread_.join();
    }

    [[nodiscard]] executor_type executor() { return context_->get_executor(); }

private:
    std::shared_ptr<boost::asio::io_context> context_ =
        std::make_shared<boost::asio::io_context>(1);
    boost::asio::executor_work_guard<boost::asio::io_context::executor_type> work_{
        context_->get_executor()};
    std::thread thread_{[context = context_] { context->run(); }};
};

session::session(const executor_type& executor, config settings, session_thread thread,
                 detail::checked_asio_options /*options*/)
    : thread_(thread == session_thread::own ? std::make_unique<own_thread>() : nullptr)
    , core_(std::make_shared<detail::session_core>(
          executor, thread_ ? thread_->executor() : executor, std::move(settings)))
{
}

session::~session()
{
    if (core_->is_forked() && thread_)
    {
        // The thread belongs to the parent. The context's descriptors are in an epoll set that both processes
        // share: closing them here would stop the parent's notifications. So they are kept until the process
        // ends.
        static auto* const kept = new (std::nothrow) std::vector<std::shared_ptr<void>>();
        kept->push_back(std::move(core_));
        kept->emplace_back(std::move(thread_));
        return;
    }
    core_->stop();
}

session_metrics session::metrics() const
{
    return core_->metrics();
}

}  // namespace turnstile::redis

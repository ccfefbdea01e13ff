// Copyright (c) 2026 The Turnstile authors
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)

#ifndef TURNSTILE_DETAIL_HOSTED_HPP
#define TURNSTILE_DETAIL_HOSTED_HPP

#include <boost/asio/system_executor.hpp>
#include <cstdint>
#include <optional>
#include <turnstile/detail/kept_executor.hpp>
#include <utility>

namespace turnstile::detail {

/// A state with the executor of its public object, the fallback executor of its operations.
template <class State, class Executor>
class hosted final : public State
{
public:
    using executor_type = Executor;

    template <class... Args>
    explicit hosted(Executor executor, Args&&... args)
        : State(std::forward<Args>(args)...)
        , executor_(std::move(executor))
    {
        State::start_watching();
    }

    /// The executor. The public object must exist.
    [[nodiscard]] const executor_type& executor() const noexcept { return executor_.get(); }

    /// The executor, with which a further public object can be constructed.
    [[nodiscard]] const kept_executor<Executor>& kept() const noexcept { return executor_; }

    /// The executor, or the system executor if the public object or the executor's context has been
    /// destroyed. The plain executor of an io_context is returned even after the end of its context,
    /// and must not be used then.
    [[nodiscard]] executor_or_system_t<Executor> executor_or_system()
    {
        using found_type = executor_or_system_t<Executor>;
        std::optional<Executor> own;
        const std::uint64_t word = State::lock_queue();
        if (executor_)
            own.emplace(executor_.get());
        State::unlock_queue(word);
        // The conversion may allocate, so it must not be done under the lock.
        return own ? found_type(*std::move(own)) : found_type(boost::asio::system_executor());
    }

    /// Takes the executor away, unless it is gone. The end of its context does not access it any more.
    [[nodiscard]] std::optional<Executor> take_executor() noexcept
    {
        executor_.quit();
        const std::uint64_t word = State::lock_queue();
        std::optional<Executor> taken = executor_.take();
        State::unlock_queue(word);
        return taken;
    }

    /// Called by the destructor of the public object.
    void orphan() noexcept
    {
        // Destroyed last, since the executor may own its context.
        [[maybe_unused]] const std::optional<Executor> last = take_executor();
        State::orphan();
    }

private:
    kept_executor<Executor> executor_;
};

/// The same for a grant, whose state is null if it is empty.
template <class State>
[[nodiscard]] auto executor_or_system(State* state)
{
    using found_type = decltype(state->executor_or_system());
    return state != nullptr ? state->executor_or_system()
                            : found_type(boost::asio::system_executor());
}

/// Access to the state of a public object, for other parts of the library.
struct state_access
{
    template <class Object>
    static auto& state(Object& object) noexcept
    {
        return *object.state_;
    }

    /// Takes the fallback executor of a condition away.
    template <class Condition>
    static auto take_executor(Condition& condition) noexcept
    {
        condition.executor_.quit();
        return condition.executor_.take();
    }
};

/// Deleter with which a public object owns its state.
struct orphan_deleter
{
    template <class State>
    void operator()(State* state) const noexcept
    {
        state->orphan();
    }
};

}  // namespace turnstile::detail

#endif

// Copyright (c) 2026 The Turnstile authors
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)

#ifndef TURNSTILE_DETAIL_QUEUE_WORD_HPP
#define TURNSTILE_DETAIL_QUEUE_WORD_HPP

#include <boost/config.hpp>
#include <boost/core/yield_primitives.hpp>
#include <cstdint>

// The word of a queue: the state of its primitive, and the lock of the queue.
//
// The low four bits belong to the engine, the others to the primitive. While none of the
// four bits is set, the primitive can acquire and release by one compare-and-swap, without the
// queue:
//
//   queue_locked   a thread works on the queue. That thread owns the word until its next store,
//                  since every compare-and-swap without the queue lock expects a word without this
//                  bit.
//   has_waiters    the queue has waiters, so newcomers must not acquire a free unit.
//   orphaned       the public object has been destroyed; the guards keep the state alive.
//   slow           each operation must take the slow path: the object is watched, closed, ...

namespace turnstile::detail {

template <class Synchronization>
class queue_word
{
public:
    static constexpr std::uint64_t queue_locked = 1;
    static constexpr std::uint64_t has_waiters = 2;
    static constexpr std::uint64_t orphaned = 4;
    static constexpr std::uint64_t slow = 8;
    static constexpr std::uint64_t engine_bits = 15;

    /// Locks the queue. Returns the word without queue_locked. Inline: a wait locks it twice, when it parks
    /// and when it is granted.
    BOOST_FORCEINLINE std::uint64_t lock_queue() noexcept
    {
        const std::uint64_t word = word_.peek();
        if ((word & queue_locked) == 0 && word_.replace_acquire(word, word | queue_locked))
            [[likely]]
            return word;
        return lock_queue_slowly();
    }

protected:
    explicit queue_word(std::uint64_t word) noexcept
        : word_(word)
    {
    }

    ~queue_word() = default;

    typename Synchronization::word word_;

private:
    BOOST_NOINLINE std::uint64_t lock_queue_slowly() noexcept
    {
        for (unsigned spins = 0;; ++spins)
        {
            const std::uint64_t word = word_.peek();
            if ((word & queue_locked) == 0 && word_.replace_acquire(word, word | queue_locked))
                return word;
            // The scheduler may have preempted the thread that has locked the queue: let that
            // thread run.
            if (spins < 64)
                boost::core::sp_thread_pause();
            else
                boost::core::sp_thread_yield();
        }
    }
};

}  // namespace turnstile::detail

#endif

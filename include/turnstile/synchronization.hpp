// Copyright (c) 2026 The Turnstile authors
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)

#ifndef TURNSTILE_SYNCHRONIZATION_HPP
#define TURNSTILE_SYNCHRONIZATION_HPP

#include <atomic>
#include <cstdint>

namespace turnstile {

/**
 * @brief Synchronization policy: the object may be used from several threads at once.
 *
 * The default of every primitive.
 */
struct synchronized
{
    /// One word of state that threads share.
    class word
    {
    public:
        /// Constructs a word that holds @p value.
        explicit word(std::uint64_t value) noexcept
            : value_(value)
        {
        }

        /// Reads without ordering.
        [[nodiscard]] std::uint64_t peek() const noexcept
        {
            return value_.load(std::memory_order_relaxed);
        }

        /// Reads, seeing what was written before the word was stored.
        [[nodiscard]] std::uint64_t load() const noexcept
        {
            return value_.load(std::memory_order_acquire);
        }

        /// Publishes @p value and what was written before it.
        void store(std::uint64_t value) noexcept { value_.store(value, std::memory_order_release); }

        /// Replaces @p expected by @p desired and sees what its writer had written before.
        bool take(std::uint64_t expected, std::uint64_t desired) noexcept
        {
            return value_.compare_exchange_strong(expected, desired, std::memory_order_acquire,
                                                  std::memory_order_relaxed);
        }

        /// Replaces @p expected by @p desired and publishes what was written before.
        bool give(std::uint64_t expected, std::uint64_t desired) noexcept
        {
            return value_.compare_exchange_strong(expected, desired, std::memory_order_release,
                                                  std::memory_order_relaxed);
        }

    private:
        std::atomic<std::uint64_t> value_;
    };

    /// Whether several threads may use the object.
    static constexpr bool is_thread_safe = true;
};

/**
 * @brief Synchronization policy: the object is used from one thread, or one strand, at a time.
 *
 * Saves the atomic instructions. The executors of the waiters must then all belong to that thread
 * or strand.
 */
struct unsynchronized
{
    /// One word of state.
    class word
    {
    public:
        /// Constructs a word that holds @p value.
        explicit word(std::uint64_t value) noexcept
            : value_(value)
        {
        }

        /// Reads the word.
        [[nodiscard]] std::uint64_t peek() const noexcept { return value_; }

        /// Reads the word.
        [[nodiscard]] std::uint64_t load() const noexcept { return value_; }

        /// Writes the word.
        void store(std::uint64_t value) noexcept { value_ = value; }

        /// Replaces @p expected by @p desired.
        bool take(std::uint64_t expected, std::uint64_t desired) noexcept
        {
            if (value_ != expected)
                return false;
            value_ = desired;
            return true;
        }

        /// Replaces @p expected by @p desired.
        bool give(std::uint64_t expected, std::uint64_t desired) noexcept
        {
            return take(expected, desired);
        }

    private:
        std::uint64_t value_;
    };

    /// Whether several threads may use the object.
    static constexpr bool is_thread_safe = false;
};

}  // namespace turnstile

#endif

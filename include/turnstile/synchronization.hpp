// Copyright (c) 2026 The Turnstile authors
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)

#ifndef TURNSTILE_SYNCHRONIZATION_HPP
#define TURNSTILE_SYNCHRONIZATION_HPP

#include <atomic>
#include <cstdint>

namespace turnstile {

/**
 * @brief Synchronization policy: several threads may use the object at once.
 *
 * The default of every primitive.
 */
struct synchronized
{
    /// One word of state, shared by threads.
    class word
    {
    public:
        /// Constructs a word with a value.
        explicit word(std::uint64_t value) noexcept
            : value_(value)
        {
        }

        /// Reads with relaxed ordering.
        [[nodiscard]] std::uint64_t peek() const noexcept
        {
            return value_.load(std::memory_order_relaxed);
        }

        /// Reads with acquire ordering.
        [[nodiscard]] std::uint64_t load() const noexcept
        {
            return value_.load(std::memory_order_acquire);
        }

        /// Writes with release ordering.
        void store(std::uint64_t value) noexcept { value_.store(value, std::memory_order_release); }

        /// Replaces @p expected by @p desired with acquire ordering. Returns whether the word was
        /// @p expected.
        bool replace_acquire(std::uint64_t expected, std::uint64_t desired) noexcept
        {
            return value_.compare_exchange_strong(expected, desired, std::memory_order_acquire,
                                                  std::memory_order_relaxed);
        }

        /// Replaces @p expected by @p desired with release ordering. Returns whether the word was
        /// @p expected.
        bool replace_release(std::uint64_t expected, std::uint64_t desired) noexcept
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
 * @brief Synchronization policy: only one thread, or one strand, uses the object.
 *
 * It needs no atomic instructions. The executors of all waiters must belong to that thread or
 * strand.
 */
struct unsynchronized
{
    /// One word of state.
    class word
    {
    public:
        /// Constructs a word with a value.
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
        bool replace_acquire(std::uint64_t expected, std::uint64_t desired) noexcept
        {
            if (value_ != expected)
                return false;
            value_ = desired;
            return true;
        }

        /// Replaces @p expected by @p desired.
        bool replace_release(std::uint64_t expected, std::uint64_t desired) noexcept
        {
            return replace_acquire(expected, desired);
        }

    private:
        std::uint64_t value_;
    };

    /// Whether several threads may use the object.
    static constexpr bool is_thread_safe = false;
};

}  // namespace turnstile

#endif

// Copyright (c) 2026 The Turnstile authors
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)

#ifndef TURNSTILE_TEST_SUPPORT_HEAP_ALLOCATIONS_HPP
#define TURNSTILE_TEST_SUPPORT_HEAP_ALLOCATIONS_HPP

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdlib>
#include <functional>
#include <limits>
#include <new>

// Counts the allocations of the whole program, and lets them fail. Defines the global operators, so only one source
// file of a program may include this.

namespace turnstile::test {

// The thread sanitizer of clang++ defines its own operators, which cannot be replaced.
#if defined(__has_feature)
#if __has_feature(thread_sanitizer)
#define TURNSTILE_TEST_COUNTS_ALLOCATIONS 0
#endif
#endif
#ifndef TURNSTILE_TEST_COUNTS_ALLOCATIONS
#define TURNSTILE_TEST_COUNTS_ALLOCATIONS 1
#endif

constexpr bool counts_allocations = TURNSTILE_TEST_COUNTS_ALLOCATIONS == 1;

inline std::atomic<std::size_t> heap_allocations{0};

/// The number of allocated blocks that were not freed.
inline std::atomic<std::size_t> heap_blocks{0};

constexpr std::size_t unlimited = std::numeric_limits<std::size_t>::max();

/// The number of allocations until one fails.
inline std::size_t allocations_until_failure = unlimited;

/// Called before the allocation fails.
inline std::function<void()> before_failure;

}  // namespace turnstile::test

#if TURNSTILE_TEST_COUNTS_ALLOCATIONS

namespace turnstile::test {

inline void* allocate(std::size_t size, std::size_t alignment)
{
    heap_allocations.fetch_add(1, std::memory_order_relaxed);
    const bool fails = allocations_until_failure == 0;
    // After the failure, the number is unlimited.
    if (allocations_until_failure != unlimited)
        --allocations_until_failure;
    if (fails)
    {
        if (before_failure)
            before_failure();
        throw std::bad_alloc();
    }
    const std::size_t rounded = (size + alignment - 1) / alignment * alignment;
    if (void* p = std::aligned_alloc(alignment, std::max(rounded, alignment)))
    {
        heap_blocks.fetch_add(1, std::memory_order_relaxed);
        return p;
    }
    throw std::bad_alloc();
}

inline void deallocate(void* p) noexcept
{
    if (p != nullptr)
        heap_blocks.fetch_sub(1, std::memory_order_relaxed);
    std::free(p);
}

}  // namespace turnstile::test

// NOLINTBEGIN(misc-definitions-in-headers)

// Not inline, because g++ would analyse the functions separately and warn about mismatched pairs.
[[gnu::noinline]] void* operator new(std::size_t size)
{
    return turnstile::test::allocate(size, alignof(std::max_align_t));
}

[[gnu::noinline]] void* operator new(std::size_t size, std::align_val_t alignment)
{
    return turnstile::test::allocate(size, static_cast<std::size_t>(alignment));
}

[[gnu::noinline]] void operator delete(void* p) noexcept
{
    turnstile::test::deallocate(p);
}

[[gnu::noinline]] void operator delete(void* p, std::size_t /*size*/) noexcept
{
    turnstile::test::deallocate(p);
}

[[gnu::noinline]] void operator delete(void* p, std::align_val_t /*alignment*/) noexcept
{
    turnstile::test::deallocate(p);
}

[[gnu::noinline]] void operator delete(void* p, std::size_t /*size*/,
                                       std::align_val_t /*alignment*/) noexcept
{
    turnstile::test::deallocate(p);
}

// NOLINTEND(misc-definitions-in-headers)

#endif

#endif

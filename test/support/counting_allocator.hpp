// Copyright (c) 2026 The Turnstile authors
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)

#ifndef TURNSTILE_TEST_SUPPORT_COUNTING_ALLOCATOR_HPP
#define TURNSTILE_TEST_SUPPORT_COUNTING_ALLOCATOR_HPP

#include <cstddef>
#include <memory>

namespace turnstile::test {

/// Totals of one or more allocators.
struct allocation_count
{
    std::size_t allocations = 0;
    /// The bytes that are currently allocated.
    std::size_t live = 0;
};

/// An allocator that counts.
template <class T>
class counting_allocator
{
public:
    using value_type = T;

    explicit counting_allocator(allocation_count& count) noexcept
        : count_(&count)
    {
    }

    template <class U>
    counting_allocator(const counting_allocator<U>& other) noexcept
        : count_(&other.count())
    {
    }

    [[nodiscard]] T* allocate(std::size_t n)
    {
        ++count_->allocations;
        count_->live += n * sizeof(T);
        return std::allocator<T>().allocate(n);
    }

    void deallocate(T* p, std::size_t n) noexcept
    {
        count_->live -= n * sizeof(T);
        std::allocator<T>().deallocate(p, n);
    }

    [[nodiscard]] allocation_count& count() const noexcept { return *count_; }

    template <class U>
    friend bool operator==(const counting_allocator& a, const counting_allocator<U>& b) noexcept
    {
        return &a.count() == &b.count();
    }

private:
    allocation_count* count_;
};

}  // namespace turnstile::test

#endif

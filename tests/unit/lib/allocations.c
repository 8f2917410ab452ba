/* SPDX-License-Identifier: Apache-2.0 */
/* The hook that counts; see allocations.h. */
#include "allocations.h"

#include "base/alloc.h"

size_t allocation_count;
size_t largest_allocation;
size_t fail_every;
size_t refused_index;

static bool count_allocation(size_t size)
{
    allocation_count++;
    largest_allocation = size > largest_allocation ? size : largest_allocation;
    return allocation_count != refused_index &&
           (fail_every == 0 || allocation_count % fail_every != 0);
}

int begin_counting(void **state)
{
    (void)state;
    allocation_count = 0;
    largest_allocation = 0;
    fail_every = 0;
    refused_index = 0;
    pawl__alloc_hook = count_allocation;
    return 0;
}

int end_counting(void **state)
{
    (void)state;
    pawl__alloc_hook = NULL;
    return 0;
}

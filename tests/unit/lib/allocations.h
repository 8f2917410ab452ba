/* SPDX-License-Identifier: Apache-2.0 */
/* Allocations of one case, counted and refused through pawl__alloc_hook. */
#ifndef PAWL_UNIT_LIB_ALLOCATIONS_H
#define PAWL_UNIT_LIB_ALLOCATIONS_H

#include <stddef.h>

extern size_t allocation_count;
extern size_t largest_allocation;
extern size_t fail_every;    /* refuse each n-th allocation; 0: none, 1: all */
extern size_t refused_index; /* the one that fails, counted from 1; 0: none */

/* A setup and a teardown for cmocka. */
int begin_counting(void **state);
int end_counting(void **state);

#endif

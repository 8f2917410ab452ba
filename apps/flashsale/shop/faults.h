/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Faults on demand: at the Nth order of this process that is inside the lock, or at the next one,
 * the process dies, stops, or takes its time.
 */
#ifndef FLASHSALE_SHOP_FAULTS_H
#define FLASHSALE_SHOP_FAULTS_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

struct shop;

enum fault { FAULT_DIE, FAULT_STOP, FAULT_SLOW, FAULT_COUNT };

/* "die", "stop", "slow" */
extern const char *const fault_names[FAULT_COUNT];

/* Where a fault strikes: at work inside the lock, or between two commands that should be one. */
enum fault_place { FAULT_AT_WORK, FAULT_IN_GAP, FAULT_PLACES };

struct fault_plan {
    int64_t at; /* the number of the order that it strikes, counted from 1; 0: none */
    int64_t for_us;
    enum fault_place place;
};

enum { FAULT_NOTE_SIZE = 160 };

struct faults {
    pthread_mutex_t mutex;
    int64_t passed[FAULT_PLACES]; /* orders that have come to this place so far */
    struct fault_plan plans[FAULT_COUNT];
    char note[FAULT_NOTE_SIZE]; /* what was armed or struck last, as a sentence */
};

void faults_open(struct faults *faults);
void faults_close(struct faults *faults);

/* Strike as planned; plan.at 0: at the next order that comes to the place. */
void shop_arm_fault(struct shop *shop, enum fault fault, struct fault_plan plan);

/* How many faults are armed and have not struck yet. */
int shop_armed_faults(struct shop *shop);

/* What was armed or struck last; "" if nothing. */
void shop_fault_note(struct shop *shop, char note_out[FAULT_NOTE_SIZE]);
void shop_set_fault_note(struct shop *shop, const char *note);

#endif

/* The facts found at the start, and the settings of the environment. */
#include "preload.h"

/* A page of its own: sealed once the vDSO has been found. */
union sealed_state vfix_found __attribute__((aligned(PAGE_SIZE)));
int vfix_heal_wanted = 1, vfix_log_wanted;

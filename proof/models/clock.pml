/* The clock beside the wakes: calls overlap, a wake may be lost between them, and each job is done all the same. */

#define CALLS_OVERLAP
#define CLOCK
#include "wake.pml"

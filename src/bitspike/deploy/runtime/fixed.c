/* The runtime once more, with membranes in fixed point, under names of its own: so that Python can measure the loss. */
#define BS_FIXED
#define bs_check bs_fixed_check
#define bs_state_bytes bs_fixed_state_bytes
#define bs_reset bs_fixed_reset
#define bs_rest bs_fixed_rest
#define bs_show bs_fixed_show
#define bs_map_bytes bs_fixed_map_bytes
#define bs_map bs_fixed_map
#define bs_show_map bs_fixed_show_map
#define bs_event bs_fixed_event
#define bs_step bs_fixed_step
#define bs_step_bytes bs_fixed_step_bytes
#define bs_steps bs_fixed_steps
#define bs_spikes bs_fixed_spikes
#define bs_membrane bs_fixed_membrane
#define bs_counts bs_fixed_counts
#define bs_scores bs_fixed_scores
#define bs_wide_bytes bs_fixed_wide_bytes
#define bs_widen bs_fixed_widen
#define bitspike_run_batch bitspike_run_batch_fixed

#include "runtime.c"

#include "batch.c"

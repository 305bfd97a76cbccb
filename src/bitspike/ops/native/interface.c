/* What c_library.py asks before it uses this library: was it built from sources that fit the Python code? */
#include "lif/scan.h"

/* Raise this number here and in c_library.py when a structure or a signature of any kernel changes. */
EXPORT int bitspike_interface(void)
{
    return 7;
}

/* How many surrogates the kernels know: a library that was built before one was added must not take its place. */
EXPORT int bitspike_surrogates(void)
{
    return SURROGATES;
}

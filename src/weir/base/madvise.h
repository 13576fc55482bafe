#pragma once

#include <sys/mman.h>

// Newer than the headers of some systems; older kernels answer EINVAL.
#ifndef MADV_POPULATE_READ
#define MADV_POPULATE_READ 22
#define MADV_POPULATE_WRITE 23
#endif

#ifndef CTILLER_CHECKSUM_H
#define CTILLER_CHECKSUM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/// Whether the processor has instructions for CRC-32C, for which Swift has no names.
bool tiller_crc32c_is_supported(void);

/// What the bytes make of a remainder; without the inversions before and after. Only where it is supported.
uint32_t tiller_crc32c(uint32_t remainder, const void *bytes, size_t count);

#endif

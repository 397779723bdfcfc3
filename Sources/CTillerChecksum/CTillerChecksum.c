#include "CTillerChecksum.h"

#include <string.h>

#if defined(__x86_64__)

#include <cpuid.h>

bool tiller_crc32c_is_supported(void) {
    unsigned int a, b, c, d;
    return __get_cpuid(1, &a, &b, &c, &d) && (c & bit_SSE4_2);
}

#define WITH_CRC __attribute__((target("sse4.2")))
#define CRC_OF_8(remainder, word) ((uint32_t)__builtin_ia32_crc32di(remainder, word))
#define CRC_OF_1(remainder, byte) __builtin_ia32_crc32qi(remainder, byte)

#elif defined(__aarch64__) && (defined(__APPLE__) || defined(__linux__))

#if defined(__APPLE__)

#include <sys/sysctl.h>

bool tiller_crc32c_is_supported(void) {
    int value = 0;
    size_t size = sizeof(value);
    return sysctlbyname("hw.optional.armv8_crc32", &value, &size, NULL, 0) == 0 && value != 0;
}

#else

#include <sys/auxv.h>

bool tiller_crc32c_is_supported(void) {
    return (getauxval(AT_HWCAP) & (1UL << 7)) != 0;  // HWCAP_CRC32
}

#endif

#define WITH_CRC __attribute__((target("crc")))
#define CRC_OF_8(remainder, word) __builtin_arm_crc32cd(remainder, word)
#define CRC_OF_1(remainder, byte) __builtin_arm_crc32cb(remainder, byte)

#endif

#if defined(WITH_CRC)

WITH_CRC uint32_t tiller_crc32c(uint32_t remainder, const void *bytes, size_t count) {
    const unsigned char *next = bytes;
    for (; count >= 8; next += 8, count -= 8) {
        uint64_t word;
        memcpy(&word, next, sizeof(word));
        remainder = CRC_OF_8(remainder, word);
    }
    for (; count > 0; next += 1, count -= 1) remainder = CRC_OF_1(remainder, *next);
    return remainder;
}

#else

bool tiller_crc32c_is_supported(void) { return false; }

uint32_t tiller_crc32c(uint32_t remainder, const void *bytes, size_t count) {
    (void)bytes;
    (void)count;
    return remainder;
}

#endif
